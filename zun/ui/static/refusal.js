// SPDX-License-Identifier: Apache-2.0
// Why a request finds no host, and the nearest requests that would: shared by <zun-why> and <zun-container>.

import {html, nothing} from "./vendor/lit-html.js";
import {sheet} from "./look.js";
import {LABELS, valuesOf} from "./request.js";
import {count} from "./words.js";

/** The style of `refusalTemplate`. */
export const refusalLook = sheet(`
.changes { list-style: none; margin: 0 0 16px; padding: 0; display: grid; gap: 8px; }
.changes li { display: flex; flex-wrap: wrap; gap: 8px 12px; align-items: center; justify-content: space-between;
    border: 1px solid var(--line); border-radius: var(--radius); padding: 8px 8px 8px 14px; background: var(--raised); }
.changes strong { font-weight: 500; overflow-wrap: anywhere; }
.codes { display: flex; flex-wrap: wrap; gap: 6px 8px; list-style: none; padding: 0; margin: 0 0 16px; }
.codes li { background: var(--raised); border: 1px solid var(--line); border-radius: 999px; padding: 1px 12px;
    font-size: 13.5px; }
.reason-text { overflow-wrap: anywhere; }
`);

/** Words of the codes under which hosts are counted. A code that is not here is shown as it is. */
const CODES = {
    "aggregate": "aggregates do not match",
    "apart": "the parts do not fit together",
    "cache": "too little L3 cache or memory bandwidth",
    "cores": "too few whole cores",
    "cpus": "too few CPUs",
    "cpus-gone": "CPUs are offline now",
    "cpus-taken": "CPUs were taken meanwhile",
    "device": "no such device free",
    "devices": "too few devices free",
    "devices-gone": "devices are gone",
    "devices-taken": "devices were taken meanwhile",
    "disk": "too little disk",
    "group": "policy of the group",
    "image": "image does not fit",
    "isolation": "cannot be isolated",
    "label": "another label",
    "memory": "too little memory",
    "neighbour": "wrong neighbours",
    "no-cpus": "no CPUs for containers",
    "no-pinning": "no dedicated containers",
    "no-smt": "cores have one thread",
    "other": "another filter",
    "page-size": "no huge pages of this size",
    "pages": "too few huge pages",
    "refused-before": "refused the claim before",
    "reserved": "reserved for other projects",
    "runtime": "no such runtime",
    "service": "out of service",
    "shape": "the shape does not fit",
    "shared-floor": "shared containers need the CPUs",
    "shared-pool": "shared pool is full",
    "too-few-cells": "too few cells",
    "trait": "traits do not match",
    "unproven": "search ended early",
    "zone": "another zone or host",
};

/** Return a code in words. */
export function codeText(code) {
    return Object.hasOwn(CODES, code) ? CODES[code] : code;
}

/** Return a change of a request in words. Example: "CPUs 4", "Number of cells 2, without CPUs of each cell". */
export function changeText(change) {
    const typed = valuesOf(change);
    const label = (name) => LABELS.get(name) ?? name;
    const names = Object.keys(change);
    const set = names
        .filter((name) => change[name] !== null)
        .map((name) => `${label(name)} ${typed[name] ?? change[name]}`);
    const left = names.filter((name) => change[name] === null).map(label);
    return [...set, ...(left.length ? [`without ${left.join(" and ")}`] : [])].join(", ");
}

/**
 * Return the template of a refusal of the API. `use(change)` is called when the user takes one of the nearest requests
 * that fit; without it they are only listed.
 */
export function refusalTemplate(refusal, use) {
    const codes = Object.entries(refusal.codes ?? {});
    return html`
        <p class="reason-text">${refusal.reason}</p>
        ${
            codes.length
                ? html`<ul class="codes" aria-label="Hosts by reason">
                      ${codes.map(([code, number]) => html`<li>${count(number, "host")}: ${codeText(code)}</li>`)}
                  </ul>`
                : nothing
        }
        ${
            refusal.changes?.length
                ? html`<h3>It would fit with</h3>
                      <ul class="changes">
                          ${refusal.changes.map(({change}) => changeTemplate(change, use))}
                      </ul>`
                : nothing
        }
    `;
}

function changeTemplate(change, use) {
    return html`<li>
        <strong>${changeText(change)}</strong>
        ${
            use
                ? html`<button
                      type="button"
                      class="small"
                      aria-label="Use this: ${changeText(change)}"
                      @click=${() => use(change)}
                  >
                      Use this
                  </button>`
                : nothing
        }
    </li>`;
}
