check() { python3 "$HERMES_SKILL_DIR/scripts/css_check.py" "$@"; }
cat > bad.html <<'HTML'
<style>
:root { --soft: hsl(220 9% 70%); }
body { background: #fff; }
p { color: var(--soft); font-size: 11px; }
h1 { color: #767676; font-size: 2rem; }
button { outline: none; transition: all 1s; }
</style>
HTML
check bad.html > found && exit 1
grep -q 'contrast 2.* is too low: p$' found
if grep -q 'low: h1' found; then exit 1; fi
grep -q 'outline is removed' found
grep -q 'motion without' found
grep -q 'below 12 pixels' found
{ check --contrast '#777' white || true; } | grep -q '^4.48: large text only$'
{ check --contrast nothing white 2>&1 || true; } | grep -q 'not a colour: nothing'
