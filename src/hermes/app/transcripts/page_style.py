"""How an exported page looks: light and dark, wide and narrow, without any outside help."""

STYLE = """\
:root {
  color-scheme: light dark;
  --paper: #fbfaf8; --ink: #1d1c1a; --faint: #6a665f; --line: #dedad2;
  --card: #ffffff; --user: #eaf1fb; --code: #f2f0eb; --accent: #2b5fa8; --bad: #b3261e;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #17181a; --ink: #e6e4df; --faint: #9b978f; --line: #34363a;
    --card: #1f2124; --user: #1e2b3d; --code: #141517; --accent: #8db7f0; --bad: #f2a19b;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; scroll-behavior: smooth; }
body {
  margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 52rem;
  background: var(--paper); color: var(--ink);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
  overflow-wrap: anywhere;
}
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 1rem; }
h2 { font-size: 1.35rem; line-height: 1.3; margin: 0 0 .5rem; }
h3 {
  margin: 2rem 0 .75rem; padding-top: .6rem; border-top: 1px solid var(--line);
  font-size: .85rem; font-weight: 600; color: var(--faint);
}
a { color: var(--accent); }
nav ol { margin: 0 0 1rem; padding: 0; list-style: none; }
nav li { padding: .45rem 0; border-bottom: 1px solid var(--line); }
nav small { display: block; color: var(--faint); }
article { margin-top: 3rem; }
.facts { display: flex; flex-wrap: wrap; gap: .15rem 1.2rem; margin: 0; font-size: .85rem; }
.facts div { display: flex; gap: .35rem; }
.facts dt { color: var(--faint); }
.facts dd { margin: 0; }
.said { margin: .75rem 0; padding: .7rem .9rem; border-radius: .6rem; background: var(--card);
  border: 1px solid var(--line); }
.said.user { background: var(--user); border-color: transparent; }
.who { margin: 0 0 .3rem; font-size: .78rem; font-weight: 600; color: var(--faint); }
.text { white-space: pre-wrap; unicode-bidi: plaintext; }
.text + pre, pre + .text, pre + pre, details + .text, details + pre { margin-top: .6rem; }
.said > :last-child { margin-bottom: 0; }
pre, code { font: .875em/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono",
  monospace; background: var(--code); border-radius: .35rem; }
code { padding: .1em .3em; }
pre { margin: 0; padding: .6rem .75rem; max-height: 32rem; overflow: auto; white-space: pre-wrap;
  unicode-bidi: plaintext; }
details { margin-top: .6rem; border: 1px solid var(--line); border-radius: .45rem; }
summary { padding: .35rem .6rem; cursor: pointer; font-size: .875rem; color: var(--faint); }
summary b { color: var(--ink); }
summary .brief { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
details > :not(summary) { margin: 0 .6rem .6rem; }
.bad, .bad b { color: var(--bad); }
.note + pre { margin-top: -.5rem; }
.note { font-size: .8rem; color: var(--faint); }
img { max-width: 100%; height: auto; border-radius: .35rem; display: block; margin-top: .5rem; }
footer { margin-top: 3rem; font-size: .8rem; color: var(--faint); }
@media (max-width: 30rem) {
  body { padding: 1rem .7rem 3rem; }
  .said { padding: .6rem .65rem; }
}
@media print {
  pre { max-height: none; }
  .said, details { break-inside: avoid; }
}
"""
