// SPDX-License-Identifier: Apache-2.0
// The page of a panel: the custom elements, and a client that asks Horizon instead of the service.
// AngularJS of Horizon rewrites the fragment of the address, so a choice is in its query.

import {Client} from "../horizon/lib/zun/api.js";

/** The elements of each panel: the module and tag, the heading, and the attributes that a choice sets. */
const PANELS = {
    machines: ({host}) =>
        host ? [{tag: "zun-machine", heading: host, set: {host}}] : [{tag: "zun-cloud", heading: ""}],
    placement: ({container}) => [
        {tag: "zun-containers", heading: "Containers", set: container ? {chosen: container} : {}},
        {tag: "zun-why", heading: "What fits"},
    ],
};

const panel = document.getElementById("zun-panel");
const client = new Client({
    base: panel.dataset.api,
    headers: {"X-CSRFToken": panel.dataset.csrf, "X-Requested-With": "XMLHttpRequest"},
    credentials: "same-origin",
});

/** Open the page of this panel with a choice, for example {host: "node-1"}, or without one. */
function open(choice) {
    const query = new URLSearchParams(choice).toString();
    location.assign(location.pathname + (query ? `?${query}` : ""));
}

function text(tag, content, attributes = {}) {
    return Object.assign(document.createElement(tag), {textContent: content}, attributes);
}

/** Append a part of the page. A part whose module does not load leaves a notice in its place. */
async function show({tag, heading, set = {}}) {
    const section = document.createElement("section");
    if (heading) {
        section.append(text("h2", heading));
    }
    panel.append(section);
    try {
        await import(`../horizon/lib/zun/${tag.replace("zun-", "")}.js`);
        section.append(Object.assign(document.createElement(tag), {client, ...set}));
    } catch (error) {
        console.error(error);
        const notice = `${tag} could not be loaded. Reload the page; tell the operator if it stays so.`;
        section.append(text("p", notice, {className: "alert alert-danger", role: "alert"}));
    }
}

/** Say that the session ended. What the user typed stays, and goes on after a new login in another tab. */
function signedOut() {
    const notice = text("p", "Your session has ended. ", {id: "zun-signed-out", className: "alert alert-warning"});
    notice.setAttribute("role", "alert");
    const again = text("a", "Sign in again in another tab", {href: panel.dataset.logout, target: "_blank"});
    notice.append(again, ", then come back to this page.");
    panel.prepend(notice);
}

/** Go on with the session of a new login. Its CSRF token is another one, and is on a new copy of this page. */
async function resume() {
    if (document.hidden || !client.signedOut) {
        return;
    }
    const answer = await fetch(location.href, {credentials: "same-origin"});
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("zun-panel");
    if (fresh && fresh.dataset.whose !== panel.dataset.whose) {
        location.reload();
    } else if (fresh) {
        client.headers["X-CSRFToken"] = fresh.dataset.csrf;
        document.getElementById("zun-signed-out").remove();
        client.identify({});
    }
}

client.addEventListener("zun-signed-out", signedOut);
document.addEventListener("visibilitychange", resume);
panel.addEventListener("zun-host", (event) => open({host: event.detail.host}));
panel.addEventListener("zun-container", (event) => open({container: event.detail.uuid}));

const choice = Object.fromEntries(new URLSearchParams(location.search));
if (choice.host || choice.container) {
    const back = text("a", "\u2190 All", {href: location.pathname});
    panel.append(back);
}
for (const part of PANELS[panel.dataset.elements](choice)) {
    show(part);
}
