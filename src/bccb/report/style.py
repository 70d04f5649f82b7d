"""The look of the report: light and dark, on a desk, a phone and paper."""

from __future__ import annotations

STYLE = """
:root { --ink: #1c2126; --quiet: #5b646d; --page: #ffffff; --rule: #d5dade; --faint: #f3f5f7;
  --link: #005a9c; --good: #00543c; --bad: #8a2f00; --open: #4a4a4a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ec; --quiet: #a5aeb7; --page: #14181c;
  --rule: #3a424a; --faint: #1e242a; --link: #7cc0f5; --good: #6fd3ae; --bad: #ffab7d;
  --open: #c9cdd1; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 74rem; padding: 2rem 1.25rem 4rem; background: var(--page);
  color: var(--ink); font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 1rem; text-wrap: balance; }
h2 { font-size: 1.35rem; line-height: 1.25; margin: 3rem 0 .75rem; }
p { max-width: 44rem; margin: 0 0 .8rem; }
a { color: var(--link); text-underline-offset: .15em; }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
.skip { position: absolute; left: -99rem; } .skip:focus { position: static; }
nav ol { display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; margin: 1.5rem 0 0; padding: .7rem 0;
  list-style: none; border-block: 1px solid var(--rule); }
.wide { overflow-x: auto; margin: 1rem 0 1.5rem; }
figure { max-width: 60rem; padding: .75rem; background: #fff; border: 1px solid var(--rule); }
figure svg { display: block; width: 100%; min-width: 36rem; height: auto; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .28rem .5rem; vertical-align: top; border-bottom: 1px solid var(--rule); }
thead th { color: var(--quiet); font-weight: 600; white-space: normal; vertical-align: bottom; }
thead tr:last-child th { border-bottom: 2px solid var(--quiet); }
thead .part { text-align: left; border-bottom: 0; color: var(--ink); }
.figures { text-align: right; } td.figures, .words { white-space: nowrap; }
.words { text-align: left; }
.first:not(:first-child), .part:not(:first-child) { border-left: 2px solid var(--rule); }
.new td { border-top: 2px solid var(--quiet); }
.ours td { font-weight: 650; background: var(--faint); }
.none { color: var(--quiet); }
#claims td, #claims th { text-align: left; white-space: normal; padding-block: .5rem; }
#claims td:first-child { font-weight: 600; min-width: 11rem; }
#claims td:nth-child(n + 3) { min-width: 9rem; } #claims td:last-child { min-width: 18rem; }
.badge { display: inline-block; white-space: nowrap; padding: .05rem .6rem; border-radius: 1rem;
  border: 2px solid; font-size: .88rem; font-weight: 650; }
.holds { color: var(--good); } .fails { color: var(--bad); }
.open { color: var(--open); border-style: dashed; }
.counts { display: flex; flex-wrap: wrap; gap: .4rem 1.2rem; }
@media (max-width: 34rem) { body { padding-inline: .9rem; } h1 { font-size: 1.5rem; } }
@media print { :root { --ink: #000; --quiet: #333; --page: #fff; --rule: #bbb; --faint: #eee;
    --link: #000; --good: #000; --bad: #000; --open: #000; }
  body { max-width: none; padding: 0; font-size: 10pt; } nav, .skip { display: none; }
  .wide { overflow: visible; } figure { border: 0; padding: 0; } figure svg { min-width: 0; }
  figure, tr { break-inside: avoid; } h2, section > p { break-after: avoid; }
  thead { display: table-header-group; } table { font-size: 8.5pt; } a { text-decoration: none; } }
"""
