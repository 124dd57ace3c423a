// SPDX-License-Identifier: Apache-2.0
// Keeps what an element shows up to date by conditional requests: an unchanged answer costs the API a 304.

const LONGEST = 60_000; // ms between two requests while the API fails

/** Return the ms until the next request after `failures` failed ones in a row. Example: 2000, 4000, 8000. */
export function pause(every, failures) {
    return Math.min(every * 2 ** failures, Math.max(every, LONGEST));
}

/**
 * Call `onChange(body)` with the answer to GET `path` now and after each change. Requests stop while the page is hidden
 * or the client is signed out. Options: `every` (ms), `signal` (an AbortSignal that ends the watch), `onError(error)`,
 * which gets null after the first request that succeeds again.
 * Returns {now(), stop()}: `now` asks at once, after an action of the user.
 */
export function watch(client, path, onChange, {every = 2000, signal, onError = () => {}} = {}) {
    const ended = new AbortController();
    let etag = null;
    let failures = 0;
    let timer = null;
    let asking = false;
    let again = false;

    const stop = () => {
        ended.abort();
        clearTimeout(timer);
        document.removeEventListener("visibilitychange", now);
        client.removeEventListener("zun-signed-in", afresh);
    };

    function now() {
        clearTimeout(timer);
        if (asking) {
            again = true;
        } else if (!ended.signal.aborted && !document.hidden && !client.signedOut) {
            ask();
        }
    }

    function afresh() {
        etag = null;
        now();
    }

    async function ask() {
        asking = true;
        again = false;
        try {
            const answer = await client.get(path, {etag, signal: ended.signal});
            const changed = answer.status !== 304;
            if (failures > 0) {
                failures = 0;
                onError(null);
            }
            if (changed && !ended.signal.aborted) {
                etag = answer.etag;
                onChange(answer.body);
            }
        } catch (error) {
            if (!ended.signal.aborted) {
                failures += 1;
                onError(error);
            }
        } finally {
            asking = false;
        }
        if (!ended.signal.aborted) {
            timer = setTimeout(now, again ? 0 : pause(every, failures));
        }
    }

    document.addEventListener("visibilitychange", now);
    client.addEventListener("zun-signed-in", afresh);
    signal?.addEventListener("abort", stop);
    now();
    return {now, stop};
}
