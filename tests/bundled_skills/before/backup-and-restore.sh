mkdir -p data/cache
echo 'port: 80' > data/config.yaml
echo 'x' > data/cache/big
