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
.intro { margin-bottom: 20px; }
.primary { min-height: 42px; }
details { border-top: 1px solid var(--line); padding-top: 12px; }
summary { cursor: pointer; font-size: 14px; color: var(--quiet); }
details[open] summary { margin-bottom: 12px; }
`);

/** Return the value of an HTTP basic Authorization header, in UTF-8. */
export function basic(user, password) {
    const bytes = new TextEncoder().encode(`${user}:${password}`);
    return "Basic " + btoa(String.fromCharCode(...bytes));
}

/** Return the body of a keystone login with what a form's `values` have. */
export function loginBody(values) {
    const names = values.token
        ? ["token", "project", "project_domain"]
        : ["user", "user_domain", "password", "project", "project_domain"];
    return Object.fromEntries(names.filter((name) => values[name]).map((name) => [name, values[name]]));
}

/**
 * The login. Properties: `config` (answer of config.json), `base` (URL of the page's folder), `api` (URL of the API) and
 * `expired` (the user was logged in before). The detail of "zun-login" has `headers` for the client, user and project.
 */
class Login extends HTMLElement {
    #root = this.attachShadow({mode: "open"});
    #failure = "";
    #busy = false;
    #byToken = false;

    connectedCallback() {
        this.#root.adoptedStyleSheets = [look, own];
        this.#draw();
        this.#root.querySelector("input")?.focus();
    }

    #draw() {
        const {config, expired} = this;
        const keystone = config.auth === "keystone";
        render(
            html`<form @submit=${(event) => this.#submit(event)}>
                <div>
                    <h1>${expired ? "Sign in again" : "Sign in"}</h1>
                    <p class="quiet intro">
                        ${expired
                            ? "Your session ended. What you typed is kept."
                            : "See who holds which core, and what fits."}
                    </p>
                </div>
                <div role="alert">${this.#failure ? html`<p class="notice bad">${this.#failure}</p>` : nothing}</div>
                ${this.#byToken
                    ? field("token", "Token", {type: "password", required: true, autocomplete: "off"})
                    : html`${field("user", "User", {required: true, autocomplete: "username"})}
                      ${field("password", "Password", {
                          type: "password",
                          required: true,
                          autocomplete: "current-password",
                      })}`}
                ${keystone
                    ? html`${field("project", "Project", {hint: "Empty: the default project of the user"})}
                          <details>
                              <summary>Domains</summary>
                              <div class="pair">
                                  ${this.#byToken
                                      ? nothing
                                      : field("user_domain", "User's", {value: config.default_domain})}
                                  ${field("project_domain", "Project's", {value: config.default_domain})}
                              </div>
                          </details>`
                    : nothing}
                <button class="primary" ?disabled=${this.#busy}>${this.#busy ? "Signing in…" : "Sign in"}</button>
                ${keystone
                    ? html`<button class="plain" type="button" @click=${() => this.#other()}>
                          ${this.#byToken ? "Use a password" : "Use a token"}
                      </button>`
                    : nothing}
            </form>`,
            this.#root,
        );
    }

    #other() {
        this.#byToken = !this.#byToken;
        this.#failure = "";
        this.#draw();
        this.#root.querySelector("input").focus();
    }

    async #submit(event) {
        event.preventDefault();
        if (this.#busy) {
            return;
        }
        const values = Object.fromEntries(new FormData(event.target));
        this.#busy = true;
        this.#failure = "";
        this.#draw();
        try {
            const detail = this.config.auth === "keystone" ? await this.#keystone(values) : await this.#basic(values);
            this.dispatchEvent(new CustomEvent("zun-login", {detail}));
        } catch (error) {
            this.#failure = error.status === 401 ? "Name, password or token is wrong." : error.message;
        } finally {
            this.#busy = false;
            this.#draw();
        }
    }

    async #keystone(values) {
        const {body} = await new Client({base: this.base}).post("/login", {body: loginBody(values)});
        return {user: values.user ?? "", ...body, headers: {"X-Auth-Token": body.token}};
    }

    async #basic({user, password}) {
        const headers = {Authorization: basic(user, password)};
        await new Client({base: this.api, version: this.config.version, headers}).get("/v1/containers?limit=1");
        return {user, headers};
    }
}

function field(name, label, {type = "text", value = "", hint = "", required = false, autocomplete = "off"} = {}) {
    return html`<div>
        <label for=${name}>${label}</label>
        <input
            id=${name}
            name=${name}
            type=${type}
            value=${value ?? ""}
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
