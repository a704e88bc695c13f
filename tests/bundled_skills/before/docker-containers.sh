# needs: docker-engine
echo 'hello from a container' > message.txt
cat > Dockerfile <<'DOCKER'
FROM tiny:1
COPY message.txt /app/message.txt
USER 10001
CMD ["python3", "-c", "import time; print('started', flush=True); time.sleep(60)"]
DOCKER
trap 'docker rm -f hello >/dev/null 2>&1 || true; docker image rm -f hello:dev >/dev/null 2>&1 || true' EXIT
