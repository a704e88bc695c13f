cat > sales.csv <<'CSV'
id,region,amount,day
1,north,"10,50",2024-05-01
2,south,20.25,2024-05-02
2,south,20.25,2024-05-02
3,north,,2024-05-03
4,west,5,2024-05-04
CSV
