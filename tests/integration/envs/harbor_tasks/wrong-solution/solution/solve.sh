echo 4 >count
