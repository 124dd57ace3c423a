// SPDX-License-Identifier: Apache-2.0
// The client of the REST API. The token is in memory only: a reload of the page forgets it.

const SILENT = "The service does not answer. The page tries again by itself.";

/** A request that failed. `status` is 0 if no answer came. */
export class ApiError extends Error {
    constructor({status, code = "", title = "", detail = "", requestId = ""}) {
        super(detail || title || `The service answered with status ${status}.`);
        this.name = "ApiError";
        Object.assign(this, {status, code, title, detail, requestId});
    }

    /** The field that the error names, or "". Example: "count" of "count: it must be a whole number, got x". */
    get field() {
        const named = /^([a-z_]+)(?:[.[][^:]*)?:|^'([a-z_]+)' is a required/.exec(this.message);
        return named?.[1] ?? named?.[2] ?? "";
    }
}

/** Return the ApiError of an answer's status, body (any JSON value) and request id. */
export function errorOf(status, body, requestId = "") {
    const error = body?.errors?.[0] ?? body?.error ?? {};
    const {code = "", title = "", detail = "", message = ""} = error;
    return new ApiError({status, code: String(code), title, detail: detail || message, requestId});
}

/** Return `path` with the members of `query` that have a value. */
export function withQuery(path, query = {}) {
    const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
    const text = new URLSearchParams(given).toString();
    return text ? path + (path.includes("?") ? "&" : "?") + text : path;
}

/**
 * A client of one API. `base` is the URL before "/v1/...", without a slash at its end; `headers` are sent with each
 * request. Events: "zun-signed-out" once when the API answers 401, "zun-signed-in" when a new identity is set.
 */
export class Client extends EventTarget {
    #identity;
    #signedOut = false;

    constructor({base = "", token = null, version = "latest", headers = {}, credentials = "omit"} = {}) {
        super();
        Object.assign(this, {base, version, headers, credentials});
        this.#identity = token ? {"X-Auth-Token": token} : {};
    }

    /** Whether the API refused the identity of the client, and no new one has been set since. */
    get signedOut() {
        return this.#signedOut;
    }

    get token() {
        return this.#identity["X-Auth-Token"] ?? null;
    }

    set token(token) {
        this.identify(token ? {"X-Auth-Token": token} : {});
    }

    /** Send `headers` as the identity from now on: a token, or Authorization of HTTP basic. */
    identify(headers) {
        this.#identity = headers;
        this.#signedOut = false;
        this.dispatchEvent(new Event("zun-signed-in"));
    }

    /** Forget the identity and tell the listeners of "zun-signed-out". */
    signOut() {
        this.#identity = {};
        if (!this.#signedOut) {
            this.#signedOut = true;
            this.dispatchEvent(new Event("zun-signed-out"));
        }
    }

    get(path, options) {
        return this.send("GET", path, options);
    }

    post(path, options) {
        return this.send("POST", path, options);
    }

    put(path, options) {
        return this.send("PUT", path, options);
    }

    delete(path, options) {
        return this.send("DELETE", path, options);
    }

    /**
     * Send a request and return {status, body, etag}. Status 304 is an answer, and its body is null. Raises ApiError.
     * Options: `body` (a JSON value), `query` (an object), `etag` (for If-None-Match), `signal`.
     */
    async send(method, path, {body, query, etag, signal} = {}) {
        const identity = this.#identity;
        const headers = {
            Accept: "application/json",
            "OpenStack-API-Version": `container ${this.version}`,
            ...this.headers,
            ...identity,
            ...(body === undefined ? {} : {"Content-Type": "application/json"}),
            ...(etag ? {"If-None-Match": etag} : {}),
        };
        const request = {method, headers, signal, credentials: this.credentials, cache: "no-store"};
        if (body !== undefined) {
            request.body = JSON.stringify(body);
        }
        const answer = await fetch(this.base + withQuery(path, query), request).catch((error) => {
            throw error.name === "AbortError" ? error : new ApiError({status: 0, detail: SILENT});
        });
        if (answer.status === 304) {
            return {status: 304, body: null, etag};
        }
        const content = parsed(await answer.text());
        if (!answer.ok) {
            if (answer.status === 401 && identity === this.#identity) {
                this.signOut();
            }
            throw errorOf(answer.status, content, answer.headers.get("x-openstack-request-id") ?? "");
        }
        return {status: answer.status, body: content, etag: answer.headers.get("etag")};
    }
}

/** Return the JSON value of a text, the text itself if it is not JSON, or null if it is empty. */
function parsed(text) {
    try {
        return text ? JSON.parse(text) : null;
    } catch {
        return text;
    }
}
