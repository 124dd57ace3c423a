// SPDX-License-Identifier: Apache-2.0
// The page: login, navigation and the view that the address names. The views are custom elements.

import {html, nothing, render} from "./vendor/lit-html.js";
import {Client} from "./api.js";
import {look} from "./look.js";
import "./login.js";

const HERE = new URL(".", document.baseURI).href.replace(/\/$/, ""); // ".../ui"
const API = new URL("..", document.baseURI).href.replace(/\/$/, "");

/** The views. `policy` is a path that the API refuses to whoever may not see the view. */
const VIEWS = {
    cloud: {label: "Hosts", tag: "zun-cloud", module: "./cloud.js", policy: "/v1/hosts?limit=1"},
    hosts: {label: "Host", tag: "zun-machine", module: "./machine.js", within: "cloud"},
    containers: {label: "Containers", tag: "zun-containers", module: "./containers.js"},
    why: {label: "What fits", tag: "zun-why", module: "./why.js"},
};

/** Return {view, argument} of an address' fragment. Example: "#/hosts/node%201" is hosts and "node 1". */
export function route(hash) {
    const [, view = "", argument = ""] = hash.split("/");
    const known = Object.hasOwn(VIEWS, view) && (view !== "hosts" || argument);
    return known ? {view, argument: decoded(argument)} : {view: "", argument: ""};
}

function decoded(text) {
    try {
        return decodeURIComponent(text);
    } catch {
        return text;
    }
}

const client = new Client({base: API});
const state = {
    config: null, // answer of config.json
    failure: "", // why the page cannot start
    identity: null, // answer of the login; null before the first one
    expired: false,
    allowed: new Set(), // views that the API's policy shows
    shown: "", // address of the view in the page
    moved: false, // the user went to another view
    request: null, // what "What fits" is to be filled with
};
const kept = new Map(); // view -> element, with what its user typed

function page() {
    const {config, identity, failure} = state;
    const signedIn = identity && !client.signedOut;
    return html`
        <a class="skip" href="#content" @click=${skip}>Skip to the content</a>
        <header class="top">
            <a class="brand" href="#/"><img src="icon.svg" alt="">Zun</a>
            ${signedIn ? navigation() : nothing} ${signedIn ? who(identity) : nothing}
        </header>
        <main id="content" tabindex="-1">
            ${failure ? html`<p class="notice bad" role="alert">${failure}</p>` : nothing}
            ${config && !signedIn && !failure ? login() : nothing}
            <div id="view" ?hidden=${!signedIn}></div>
        </main>
        <footer class="foot">
            <span>Zun${config ? html` · API ${config.max_version}` : nothing}</span>
            <label>
                Colours
                <select @change=${(event) => paint(event.target.value)}>
                    <option value="">as the system</option>
                    <option value="light">light</option>
                    <option value="dark">dark</option>
                </select>
            </label>
        </footer>
    `;
}

function navigation() {
    const {view} = route(location.hash);
    const current = VIEWS[view]?.within ?? view;
    const links = Object.entries(VIEWS).filter(([name, each]) => !each.within && state.allowed.has(name));
    return html`<nav aria-label="Views">
        ${links.map(
            ([name, {label}]) =>
                html`<a href="#/${name}" aria-current=${name === current ? "page" : nothing}>${label}</a>`,
        )}
    </nav>`;
}

function who({user, project, projects}) {
    return html`<div class="who">
        <span class="name" title="Signed in as ${user.name}">${user.name}</span>
        ${
            projects.length > 1
                ? html`<select aria-label="Project" @change=${changeProject}>
                  ${projects.map(
                      ({id, name}) => html`<option value=${id} .selected=${id === project.id}>${name}</option>`,
                  )}
              </select>`
                : html`<span class="name quiet" title="Project ${project.name}">${project.name}</span>`
        }
        ${
            state.config.auth_strategy === "noauth"
                ? nothing
                : html`<button class="small" @click=${signOut}>Sign out</button>`
        }
    </div>`;
}

function login() {
    return html`<zun-login
        .config=${state.config}
        .base=${HERE}
        .expired=${state.expired}
        @zun-login=${(event) => enter(event.detail)}
    ></zun-login>`;
}

function draw() {
    render(page(), document.getElementById("page"));
    show();
}

/** Put the element of the address into the page. An element that was there before keeps its state. */
async function show() {
    const place = document.getElementById("view");
    if (!state.identity || client.signedOut) {
        return;
    }
    const {view, argument} = route(location.hash);
    if (!view || (!state.allowed.has(view) && !VIEWS[view].within)) {
        location.replace("#/" + ["cloud", "containers"].find((each) => state.allowed.has(each)));
        return;
    }
    const address = view + "/" + argument;
    if (state.shown === address && place.childElementCount > 0) {
        return;
    }
    state.shown = address;
    const {label, tag, module} = VIEWS[view];
    const title = view === "hosts" ? argument : label;
    document.title = `${title} · Zun`;
    const loaded = await import(module).then(
        () => true,
        () => false,
    );
    if (state.shown !== address) {
        return; // the user went on meanwhile
    }
    const heading = Object.assign(document.createElement("h1"), {textContent: title, tabIndex: -1});
    const shown = loaded ? element(view, tag, argument) : absence(label);
    if (place.lastElementChild === shown) {
        place.firstElementChild.replaceWith(heading);
    } else {
        place.replaceChildren(heading, shown);
    }
    if (state.moved) {
        heading.focus({preventScroll: true});
        window.scrollTo(0, 0);
    }
}

function element(view, tag, argument) {
    const made = kept.get(view) ?? Object.assign(document.createElement(tag), {client});
    kept.set(view, made);
    if (view === "hosts") {
        made.setAttribute("host", argument);
    } else if (view === "containers") {
        made.chosen = argument;
    } else if (view === "why" && state.request) {
        made.request = state.request;
        state.request = null;
    }
    return made;
}

function absence(label) {
    const text = `The view "${label}" could not be loaded. Reload the page; tell the operator if it stays so.`;
    const made = Object.assign(document.createElement("p"), {textContent: text, className: "notice warn"});
    made.setAttribute("role", "alert");
    return made;
}

/** Take the answer of a login: show the views, those of before if the same user is back. */
async function enter({headers, ...identity}) {
    if (state.identity && whose(state.identity) !== whose(identity)) {
        forget();
    }
    Object.assign(state, {identity, expired: false});
    client.identify(headers);
    state.allowed = new Set(["containers", "why"]);
    if (
        await client.get(VIEWS.cloud.policy).then(
            () => true,
            (error) => error.status !== 403,
        )
    ) {
        state.allowed.add("cloud");
    }
    state.moved = true;
    draw();
}

function whose({user, project}) {
    return JSON.stringify([user.id, project.id]);
}

function forget() {
    kept.clear();
    state.shown = "";
    document.getElementById("view").replaceChildren();
}

async function changeProject(event) {
    const {projects} = state.identity;
    try {
        const body = {token: client.token, project_id: event.target.value};
        const answer = await new Client({base: HERE}).post("/login", {body});
        await enter({...answer.body, projects, headers: {"X-Auth-Token": answer.body.token}});
    } catch (error) {
        state.failure = error.message;
        draw();
    }
}

function signOut() {
    state.identity = null;
    forget();
    client.signOut();
}

function signedOut() {
    state.expired = state.identity !== null;
    draw();
}

function skip(event) {
    event.preventDefault();
    document.getElementById("content").focus();
}

function paint(scheme) {
    document.documentElement.dataset.scheme = scheme;
}

function go(hash) {
    location.hash = hash;
}

async function start() {
    document.adoptedStyleSheets = [look];
    client.addEventListener("zun-signed-out", signedOut);
    window.addEventListener("hashchange", () => {
        state.moved = true;
        state.failure = "";
        draw();
    });
    const root = document.getElementById("page");
    root.addEventListener("zun-host", (event) => go("#/hosts/" + encodeURIComponent(event.detail.host)));
    root.addEventListener("zun-container", (event) => go("#/containers/" + encodeURIComponent(event.detail.uuid)));
    root.addEventListener("zun-request", (event) => {
        state.request = event.detail.request;
        go("#/why");
    });
    try {
        state.config = (await new Client({base: HERE}).get("/config.json")).body;
        client.version = state.config.max_version;
        if (state.config.auth_strategy === "noauth") {
            const {body} = await new Client({base: HERE}).post("/login", {body: {}});
            await enter({...body, headers: {}});
        }
    } catch (error) {
        state.failure = error.message;
    }
    draw();
}

start();
