grep -q "we met to settle the price" letter.md
