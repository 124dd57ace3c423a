// SPDX-License-Identifier: Apache-2.0
// The look that the page and its elements share: colours for light and dark, text, buttons, fields, tables.
// `color-scheme` of the page decides between the two colours of light-dark(); a page without it is light.

/** Return a constructable style sheet of `text`. */
export function sheet(text) {
    const made = new CSSStyleSheet();
    made.replaceSync(text);
    return made;
}

/** The shared style sheet. An element adopts it before its own. */
export const look = sheet(`
:root, :host {
    --paper: light-dark(#ffffff, #14181d);
    --panel: light-dark(#f6f7f9, #1b2127);
    --raised: light-dark(#ffffff, #222931);
    --line: light-dark(#dfe3e8, #323b45);
    --strong-line: light-dark(#7d8894, #74808d);
    --ink: light-dark(#17202b, #e7eaee);
    --quiet: light-dark(#566270, #a3aeba);
    --accent: light-dark(#0a5f9e, #72b9ee);
    --on-accent: light-dark(#ffffff, #0c1a26);
    --accent-tint: light-dark(#e8f2fa, #1c3143);
    --good: light-dark(#00694f, #4cc9a4);
    --good-tint: light-dark(#e2f4ee, #17352d);
    --warn: light-dark(#7a5200, #edb84f);
    --warn-tint: light-dark(#fdf3da, #3a2f16);
    --bad: light-dark(#a83c00, #ff9a6c);
    --bad-tint: light-dark(#fdece3, #40261a);
    --mono: ui-monospace, "SF Mono", "Cascadia Mono", "DejaVu Sans Mono", Menlo, Consolas, monospace;
    --sans: system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif;
    --radius: 8px;
}
:host {
    display: block;
    color: var(--ink);
    font: 15px/1.5 var(--sans);
}
:host([hidden]), [hidden] { display: none !important; }
*, *::before, *::after { box-sizing: border-box; }
h1, h2, h3 { line-height: 1.25; margin: 0 0 12px; font-weight: 600; letter-spacing: -0.01em; }
h2 { font-size: 18px; }
h3 { font-size: 15px; }
p { margin: 0 0 12px; }
a { color: var(--accent); text-underline-offset: 2px; }
code, .mono { font-family: var(--mono); font-size: 0.92em; }
.quiet { color: var(--quiet); }
.bad { color: var(--bad); }
.good { color: var(--good); }
button, .button {
    display: inline-flex; align-items: center; justify-content: center; gap: 6px;
    min-height: 36px; padding: 0 14px; border: 1px solid var(--strong-line); border-radius: var(--radius);
    background: var(--raised); color: var(--ink); font: inherit; font-weight: 500; cursor: pointer;
    text-decoration: none;
}
button:hover:not(:disabled), .button:hover { background: var(--accent-tint); border-color: var(--accent); }
button:disabled { color: var(--quiet); border-color: var(--line); cursor: default; }
button.primary { background: var(--accent); border-color: var(--accent); color: var(--on-accent); }
button.primary:hover:not(:disabled) { filter: brightness(1.1); background: var(--accent); }
button.primary:disabled { opacity: 0.6; background: var(--accent); color: var(--on-accent); }
button.danger { color: var(--bad); border-color: var(--bad); }
button.danger:hover:not(:disabled) { background: var(--bad-tint); border-color: var(--bad); }
button.small { min-height: 30px; padding: 0 10px; font-size: 13.5px; }
button.plain { border-color: transparent; background: none; color: var(--accent); padding: 0 6px; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
label { display: block; font-weight: 500; font-size: 14px; margin-bottom: 4px; }
input, select, textarea {
    width: 100%; min-height: 38px; padding: 6px 10px;
    border: 1px solid var(--strong-line); border-radius: var(--radius);
    background: var(--raised); color: var(--ink); font: inherit;
}
input[type="checkbox"], input[type="radio"] { width: auto; min-height: 0; accent-color: var(--accent); }
input[aria-invalid="true"], select[aria-invalid="true"] { border-color: var(--bad); box-shadow: 0 0 0 1px var(--bad); }
input::placeholder { color: var(--quiet); opacity: 1; }
.hint { color: var(--quiet); font-size: 13px; margin: 4px 0 0; }
.wrong { color: var(--bad); font-size: 13.5px; margin: 4px 0 0; overflow-wrap: anywhere; }
.notice {
    padding: 10px 14px; border-radius: var(--radius); border: 1px solid var(--line); background: var(--panel);
    margin: 0 0 16px; overflow-wrap: anywhere;
}
.notice.bad { background: var(--bad-tint); border-color: var(--bad); color: var(--ink); }
.notice.good { background: var(--good-tint); border-color: var(--good); color: var(--ink); }
.notice.warn { background: var(--warn-tint); border-color: var(--warn); color: var(--ink); }
.panel { background: var(--panel); border: 1px solid var(--line); border-radius: 12px; padding: 20px; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th { text-align: left; font-weight: 500; color: var(--quiet); font-size: 13px; white-space: nowrap; }
th, td { padding: 9px 12px 9px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
.visually-hidden {
    position: absolute; width: 1px; height: 1px; margin: -1px; padding: 0; overflow: hidden; clip-path: inset(50%);
    white-space: nowrap; border: 0;
}
@media (prefers-reduced-motion: no-preference) {
    button, .button, input, select { transition: background-color 120ms, border-color 120ms; }
}
@media print { button, .button { display: none; } }
`);
