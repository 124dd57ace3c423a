// SPDX-License-Identifier: Apache-2.0
// <zun-login>: asks for a password or a token, and says who is logged in by the event "zun-login".

import {html, nothing, render} from "./vendor/lit-html.js";
import {Client} from "./api.js";
import {look, sheet} from "./look.js";

const own = sheet(`
:host { max-width: 400px; margin: 6vh auto 0; }
form { display: grid; gap: 14px; }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 12px; }
.pair > div { min-width: 0; }
h1 { font-size: 24px; margin: 0 0 6px; }
.intro { margin: 0; }
.primary { min-height: 42px; }
[role="alert"]:empty { display: none; }
.notice { margin: 0; }
details { border-top: 1px solid var(--line); padding-top: 12px; }
summary { cursor: pointer; font-size: 14px; color: var(--quiet); }
details[open] summary { margin-bottom: 12px; }
`);

/** Return the value of an HTTP basic Authorization header, in UTF-8. */
export function basic(user, password) {
    const bytes = new TextEncoder().encode(`${user}:${password}`);
    return "Basic " + btoa(String.fromCharCode(...bytes));
}

/** Return the body of a login with what a form's `values` have; empty values are left out. */
export function loginBody(values) {
    return Object.fromEntries(Object.entries(values).filter(([, value]) => value));
}

/** Return the headers by which the API knows whoever logged in with `values` and got `answer`. */
export function identityHeaders(values, answer) {
    if (answer.token) {
        return {"X-Auth-Token": answer.token};
    }
    return values.password ? {Authorization: basic(values.user ?? "", values.password)} : {};
}

/**
 * The login. Properties: `config` (answer of config.json), `base` (URL of the page's folder), `expired` (the user was
 * logged in before). The detail of "zun-login" is the answer to the login, with `headers` for the client.
 */
class Login extends HTMLElement {
    #root = this.attachShadow({mode: "open"});
    #failure = "";
    #busy = false;
    #byToken = false;
    #unscoped = null; // answer to a login that left the project open

    connectedCallback() {
        this.#root.adoptedStyleSheets = [look, own];
        this.#draw();
        this.#focus();
    }

    #draw() {
        render(
            html`<form @submit=${(event) => this.#submit(event)}>
                ${this.#title()}
                <div role="alert">${this.#failure ? html`<p class="notice bad">${this.#failure}</p>` : nothing}</div>
                ${this.#unscoped ? this.#projects() : this.#fields()}
                <button class="primary" ?disabled=${this.#busy}>${this.#busy ? "Signing in…" : "Sign in"}</button>
                ${this.#others()}
            </form>`,
            this.#root,
        );
    }

    #title() {
        const [title, intro] = this.expired
            ? ["Sign in again", "Your session ended. What you typed is kept."]
            : ["Sign in", "See who holds which core, and what fits."];
        return html`<div>
            <h1>${title}</h1>
            <p class="quiet intro">${intro}</p>
        </div>`;
    }

    #fields() {
        const keystone = this.config.auth_strategy === "keystone";
        const domain = this.config.default_domain;
        return html`
            ${
                this.#byToken
                    ? field("token", "Token", {type: "password", required: true})
                    : html`${field("user", "User", {required: true, autocomplete: "username"})}
                  ${field("password", "Password", {
                      type: "password",
                      required: true,
                      autocomplete: "current-password",
                  })}`
            }
            ${
                keystone
                    ? html`${field("project", "Project", {hint: "Leave it empty to choose from your projects."})}
                      <details>
                          <summary>Domains</summary>
                          <div class="pair">
                              ${this.#byToken ? nothing : field("user_domain", "User's", {value: domain})}
                              ${field("project_domain", "Project's", {value: domain})}
                          </div>
                      </details>`
                    : nothing
            }
        `;
    }

    #projects() {
        return html`<div>
            <label for="project_id">Project of ${this.#unscoped.user.name}</label>
            <select id="project_id" name="project_id">
                ${this.#unscoped.projects.map(({id, name}) => html`<option value=${id}>${name}</option>`)}
            </select>
        </div>`;
    }

    #others() {
        if (this.#unscoped) {
            return html`<button class="plain" type="button" @click=${() => this.#other({unscoped: null})}>
                Sign in as somebody else
            </button>`;
        }
        if (this.config.auth_strategy !== "keystone") {
            return nothing;
        }
        return html`<button class="plain" type="button" @click=${() => this.#other({byToken: !this.#byToken})}>
            ${this.#byToken ? "Use a password" : "Use a token"}
        </button>`;
    }

    #other({unscoped = this.#unscoped, byToken = this.#byToken}) {
        this.#unscoped = unscoped;
        this.#byToken = byToken;
        this.#failure = "";
        this.#draw();
        this.#focus();
    }

    #focus() {
        this.#root.querySelector("input, select")?.focus();
    }

    async #submit(event) {
        event.preventDefault();
        if (this.#busy) {
            return;
        }
        const values = loginBody(Object.fromEntries(new FormData(event.target)));
        this.#busy = true;
        this.#failure = "";
        this.#draw();
        try {
            await this.#signIn(values);
        } catch (error) {
            this.#failure = error.message;
        } finally {
            this.#busy = false;
            this.#draw();
        }
    }

    async #signIn(values) {
        const token = this.#unscoped?.token;
        const given = token ? {...values, token} : values;
        const {body} = await new Client({base: this.base}).post("/login", {body: given});
        if (body.project) {
            const projects = this.#unscoped?.projects ?? [];
            const detail = {...body, projects, headers: identityHeaders(given, body)};
            this.dispatchEvent(new CustomEvent("zun-login", {detail}));
        } else if (body.projects.length > 0) {
            this.#other({unscoped: body});
        } else {
            throw new Error("This user has no role in any project. Ask an administrator for one.");
        }
    }
}

function field(name, label, {type = "text", value = "", hint = "", required = false, autocomplete = "off"} = {}) {
    return html`<div>
        <label for=${name}>${label}</label>
        <input
            id=${name}
            name=${name}
            type=${type}
            value=${value}
            ?required=${required}
            autocomplete=${autocomplete}
            autocapitalize="none"
            spellcheck="false"
            aria-describedby=${hint ? `${name}-hint` : nothing}
        >
        ${hint ? html`<p class="hint" id="${name}-hint">${hint}</p>` : nothing}
    </div>`;
}

customElements.define("zun-login", Login);
