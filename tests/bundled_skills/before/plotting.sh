printf 'day,north,south\n2024-05-01,10,4\n2024-05-02,11,9\n2024-05-05,12,15\n' > sales_by_day.csv
printf 'region,amount\nnorth & co,33\nsouth,28\n' > sales_by_region.csv
