// SPDX-License-Identifier: Apache-2.0
// The page of a panel: the custom elements, and a client that asks Horizon instead of the service.

import {Client} from "../horizon/lib/zun/api.js";

const panel = document.getElementById("zun-panel");
const client = new Client({
    base: panel.dataset.api,
    headers: {"X-CSRFToken": panel.dataset.csrf, "X-Requested-With": "XMLHttpRequest"},
    credentials: "same-origin",
});

/** The panels by name. AngularJS of Horizon rewrites the fragment of the address, so the host is in its query. */
const PANELS = {
    machines() {
        const host = new URLSearchParams(location.search).get("host");
        if (host) {
            panel.append(text("a", "\u2190 All machines", {href: location.pathname}));
            show("zun-machine", host, (machine) => machine.setAttribute("host", host));
        } else {
            show("zun-cloud");
        }
        panel.addEventListener("zun-host", ({detail}) => location.assign("?" + new URLSearchParams({host: detail.host})));
    },

    placement() {
        const containers = show("zun-containers", "Containers");
        const why = show("zun-why", "What fits");
        panel.addEventListener("zun-container", ({target, detail}) => {
            if (target.localName !== "zun-containers") {
                change(containers, {chosen: detail.uuid});
            }
        });
        panel.addEventListener("zun-request", ({detail}) => change(why, {request: detail.request}));
    },
};

function text(tag, content, attributes = {}) {
    return Object.assign(document.createElement(tag), {textContent: content}, attributes);
}

/**
 * Append a part of the page, and return a promise of its element, which `ready` has seen before it is drawn. If the
 * module does not load, a notice is in its place and the element is null.
 */
async function show(tag, heading = "", ready = () => {}) {
    const section = document.createElement("section");
    if (heading) {
        section.append(text("h2", heading));
    }
    panel.append(section);
    try {
        await import(`../horizon/lib/zun/${tag.replace("zun-", "")}.js`);
    } catch (error) {
        console.error(error);
        const notice = "This part of the page could not be loaded. Reload the page; tell the operator if it stays so.";
        section.append(text("p", notice, {className: "alert alert-danger", role: "alert"}));
        return null;
    }
    const element = Object.assign(document.createElement(tag), {client});
    ready(element);
    section.append(element);
    return element;
}

/** Set properties of an element that `show` promised, and bring it into sight. */
async function change(promised, properties) {
    const element = await promised;
    if (element) {
        Object.assign(element, properties).parentElement.scrollIntoView();
    }
}

/** Say that the session ended. What the user typed stays, and goes on after a new login in another tab. */
function signedOut() {
    const notice = text("p", "Your session has ended. ", {id: "zun-signed-out", className: "alert alert-warning"});
    notice.setAttribute("role", "alert");
    const again = text("a", "Sign in again in another tab", {href: panel.dataset.login, target: "_blank"});
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
PANELS[panel.dataset.elements]();
