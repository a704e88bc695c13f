# needs: ssh sshd ssh-keygen rsync
mkdir site server
echo '<h1>hello</h1>' > site/index.html
ssh-keygen -q -t ed25519 -N '' -f server/host
ssh-keygen -q -t ed25519 -N '' -f server/user
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
cat > server/config <<CONFIG
Port $port
ListenAddress 127.0.0.1
HostKey $PWD/server/host
AuthorizedKeysFile $PWD/server/user.pub
PidFile none
UsePAM no
StrictModes no
PermitRootLogin yes
PasswordAuthentication no
SetEnv TMPDIR=$PWD/server
CONFIG
echo "[127.0.0.1]:$port $(cut -d' ' -f1,2 server/host.pub)" > server/known_hosts
sockets=$(TMPDIR=/tmp mktemp -d)  # the path of a socket must be short
cat > ssh_config <<CONFIG
Host web1
    HostName 127.0.0.1
    Port $port
    IdentityFile $PWD/server/user
    IdentitiesOnly yes
    UserKnownHostsFile $PWD/server/known_hosts
    ControlMaster auto
    ControlPath $sockets/%C
    ControlPersist 30
CONFIG
if [ "$(id -u)" = 0 ]; then mkdir -p /run/sshd; fi
"$(command -v sshd)" -D -f server/config -E "$PWD/server/log" &
server=$!
trap 'ssh -F "$WORK/ssh_config" -O exit web1 2>/dev/null; kill $server; rm -rf "$sockets"' EXIT
for _ in $(seq 500); do grep -q 'Server listening' server/log 2>/dev/null && break; sleep 0.02; done
