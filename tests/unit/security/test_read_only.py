"""Which command lines only look, so that no checkpoint is taken before them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.security.read_only import is_read_only

LOOKS = r"""
ls
ls -la src | head -20
/bin/ls /tmp
cat README.md
cat a b 2>/dev/null
head -n 5 a.txt; tail -3 b.txt
tail -f app.log
grep -rn TODO src
rg -n 'def main' --glob '*.py'
find . -name '*.py' -type f
find src -newer a -print0 | xargs -0 grep -l x
find . -name '*.c' | xargs wc -l
wc -l *.py
sort -u names.txt | uniq -c | sort -rn
diff -u a b
stat -c %s file; file image.png
echo hello $USER
printf '%s\n' "$HOME"
pwd && cd src && ls
test -f x && echo yes || echo no
[ -d build ] && ls build
if [ -f a ]; then cat a; else echo none; fi
for f in *.txt; do echo "$f"; wc -l "$f"; done
while read -r line; do echo "$line"; done < list.txt
true
date +%F
date -u
env
env | sort
which python3; type ls
command -v docker
ps aux | grep node
df -h; du -sh *
uname -a; whoami; id
git status
git status -sb && git diff --stat
git log --oneline -20
git -C sub log -3 --format=%H
git --no-pager diff HEAD~1 -- src
git show HEAD:README.md
git branch
git branch -a -vv
git branch --list 'feat/*'
git remote -v
git rev-parse --show-toplevel
git ls-files | head
git blame -L 1,20 a.py
git grep -n foo
git describe --tags
git stash list
git config --get user.name
git tag -l
docker ps -a
docker images
docker logs --tail 50 web
docker inspect web
docker compose ps
kubectl get pods -n x -o wide
kubectl -n prod logs deploy/api
kubectl describe pod x
systemctl status nginx
systemctl --user is-active x
journalctl -u nginx -n 50
jq '.name' package.json
jq -r '.a[] | .b' x.json | sort
cut -d: -f1 names
tr a-z A-Z < a.txt
awk '{print $1}' a.txt
awk -F: '$3 == 0 {print $1}' list
sed -n '10,20p' a.py
sed 's/a/b/g' a.txt
sed -n '/start/,/end/p' x
curl -s https://example.com
curl -sSL -H 'Accept: application/json' https://api.example.com/x | jq .
curl -I https://example.com
python3 --version
node -v && npm -v
pip list | grep -i django
npm ls --depth=0
time ls
timeout 5 tail -f log
tree -L 2
sha256sum a.tar.gz
x=5; echo $x
x=$(ls | wc -l); echo "$x files"
cat <<'EOF'
text
EOF
LC_ALL=C sort a
GIT_PAGER=cat git log -3
ls > /dev/null 2>&1
tar tzf a.tgz
gh pr view 12
dpkg -l | grep ssl
xxd a.bin | head
""".strip("\n")

CHANGES = r"""
touch a
rm a
mkdir x
cp a b
mv a b
ls > list.txt
echo x >> a
echo x >| a
cat a &> b
cat a 2> err.log
ls | tee list.txt
echo $(touch a)
cat <(touch a)
cat > >(tee x)
sort -o a a
sort -uo a a
sort --out=a b
sort --compress-program=x a
uniq a b
find . -delete
find . -name x -exec rm {} +
find . -fprint out
find . $x
fd -e py -x black
xargs rm < list
ls | xargs -I{} touch {}
sed -i s/a/b/ f
sed --in-place s/a/b/ f
sed -n 'w out' f
sed 's/a/b/w out' f
sed '1e touch x' f
sed -f prog f
awk '{print > "out"}' f
awk 'BEGIN{system("touch a")}'
awk '{print | "sh"}' f
awk -f prog.awk f
gawk -i inplace '{print}' f
curl -o a https://x
curl -O https://x/a
curl -sSLo a https://x
curl -d a=b https://x
curl -T a https://x
curl -c jar https://x
curl -K conf
curl --output a https://x
wget https://x
date -s 2020-01-01
env touch a
env FOO=1 make
timeout 5 make
time make
nohup ls
bash -c ls
sh script.sh
./ls
bin/cat a
python3 x.py
python3 -c 'print(1)'
node -e 1
make
make -n
npm test
npm run build
pip install x
git add .
git commit -m x
git checkout main
git pull
git fetch
git stash
git stash pop
git branch new
git branch -d old
git tag v1
git remote add a b
git config user.name x
git -c core.pager='touch x' log
git -c alias.status='!touch x' status
git diff --output=a
git log --output a
git grep -O x
git apply p
docker run x
docker exec c ls
docker compose up
docker rm x
kubectl apply -f x
kubectl delete pod x
kubectl exec p -- ls
systemctl restart x
journalctl --vacuum-time=1d
PAGER='touch x' git log
GIT_EXTERNAL_DIFF=./x git diff
PATH=.:$PATH ls
PATH=/tmp; ls
LD_PRELOAD=./x.so ls
$x
$(which ls)
"$CMD" a
ls() { touch a; }; ls
f() { ls; }; f
alias ls='touch a'; ls
eval ls
source x
. ./env
exec 3> a
cat <<EOF > a
x
EOF
cat <<EOF
$(touch a)
EOF
tar xzf a.tgz
tar --checkpoint-action=exec=sh tf a
unzip a.zip
rg --pre ./x foo
man -P './x' ls
tree -o out
less -o out a
xxd -r a b
xxd a b
yq -i .a=1 f
ssh host ls
ls |
ls "
vim a
go env -w A=b
history -c
hostname new
ifconfig eth0 down
ip link set eth0 down
unknown-program --version
ln -s a b
truncate -s 0 a
dd if=a of=b
chmod +x a
kill 1
""".strip("\n")


def cases(text: str) -> list[str]:
    """One a line; a here-document goes up to its end."""
    found: list[str] = []
    lines = iter(text.split("\n"))
    for line in lines:
        while "EOF" in line and not line.endswith("\nEOF"):
            line += "\n" + next(lines)
        found.append(line)
    return found


# One test for each list: a failure names every line that is wrong.


def test_reading_commands_are_read_only() -> None:
    assert [command for command in cases(LOOKS) if not is_read_only(command)] == []


def test_other_commands_are_not_read_only() -> None:
    assert [command for command in ["", "#", *cases(CHANGES)] if is_read_only(command)] == []


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(cases(LOOKS)), st.sampled_from(cases(CHANGES)[:100]))
def test_one_program_that_changes_something_is_enough(look: str, change: str) -> None:
    assert not is_read_only(f"{look}\n{change}")
    assert not is_read_only(f"{change}\n{look}")


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=100))
def test_any_text_gets_an_answer(command: str) -> None:
    assert is_read_only(command) in (True, False)


@pytest.mark.parametrize(
    "command", ["(" * 3_000, "ls;" * 3_000, "x" * 300_000, "uniq " + "-" * 15_000]
)
def test_commands_built_to_exhaust_the_parser_get_an_answer(command: str) -> None:
    assert not is_read_only(command + " >x")
