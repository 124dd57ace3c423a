// SPDX-License-Identifier: Apache-2.0

/**
 * Words, marks and colours that the elements share. The words are those of the glossary.
 *
 * A colour is a pair: for a light page and for a dark one. Colours of claims are the same on both.
 */

/** Okabe and Ito's colours without black: people with any common colour blindness tell them apart. */
const OKABE_ITO = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442"];

/** Kinds of the pattern on a colour. Eight kinds and seven colours make 56 different paints. */
const PATTERNS = ["plain", "rising", "dots", "level", "falling", "grid", "upright", "cross"];

/** The paint of a claim that the API does not name. */
export const ANONYMOUS = {fill: "#5f6b78", ink: "#ffffff", line: "#4f5a66", pattern: "rising"};

/**
 * Return the paint of the claim with this number: `fill`, `line` of its pattern, `ink` of text on it, and `pattern`.
 *
 * The lines of a pattern never come nearer to the ink than the fill is.
 */
export function claimPaint(number) {
    const fill = OKABE_ITO[number % OKABE_ITO.length];
    const dark = fill === "#0072b2";
    return {
        fill,
        ink: dark ? "#ffffff" : "#000000",
        line: dark ? "#005283" : mixed(fill, "#ffffff", 0.45),
        pattern: PATTERNS[number % PATTERNS.length],
    };
}

/** Return the colour between two: `part` 0 is `from`, 1 is `to`. */
function mixed(from, to, part) {
    const channel = (colour, at) => parseInt(colour.slice(at, at + 2), 16);
    const between = (at) => Math.round(channel(from, at) * (1 - part) + channel(to, at) * part);
    return `#${[1, 3, 5].map((at) => between(at).toString(16).padStart(2, "0")).join("")}`;
}

/** Return A to Z, then AA to ZZ, and so on, for the numbers from 0. */
export function letters(number) {
    const rest = Math.floor(number / 26);
    return (rest ? letters(rest - 1) : "") + String.fromCharCode(65 + (number % 26));
}

/** States of a CPU that no claim has to itself: the mark in the map, the word, and what it means. */
export const STATES = {
    free: {mark: "", word: "free", meaning: "free for containers"},
    pool: {mark: "~", word: "shared pool", meaning: "shared pool: shared containers run here"},
    reserved: {mark: "#", word: "reserved", meaning: "reserved for the host"},
    isolated: {mark: "i", word: "isolated", meaning: "isolated by the kernel, free for grade isolated"},
    foreign: {mark: "◊", word: "other services", meaning: "withheld by other services"},
    pages: {mark: "", word: "free huge pages", meaning: "memory in huge pages that nobody holds"},
    offline: {mark: "×", word: "offline", meaning: "offline"},
    withheld: {mark: "-", word: "withheld", meaning: "kept idle for a container"},
    twice: {mark: "!", word: "held twice", meaning: "two claims hold this: run an audit of the host"},
};

/** Paints of these states: `fill`, `line` (pattern and border) and `ink`, each for light and dark pages. */
export const STATE_PAINTS = {
    free: {fill: ["#ffffff", "#10161c"], line: ["#b4c0cc", "#4a5866"], ink: ["#48566a", "#b3c0cd"], pattern: "plain"},
    pool: {fill: ["#ddf0e7", "#173c2f"], line: ["#b5dcca", "#245a46"], ink: ["#0d3d2b", "#d6f3e6"], pattern: "waves"},
    reserved: {
        fill: ["#e4e8ec", "#39434e"],
        line: ["#d2d8df", "#2d353e"],
        ink: ["#333e4a", "#eef2f6"],
        pattern: "cross",
    },
    isolated: {
        fill: ["#f1ecfa", "#2b2440"],
        line: ["#cfc0ea", "#4a3f6b"],
        ink: ["#43317a", "#d9cdf7"],
        pattern: "grid",
    },
    foreign: {
        fill: ["#f1e9d9", "#40382a"],
        line: ["#dfd0b0", "#5a4f3a"],
        ink: ["#4d3f1d", "#f3e8cf"],
        pattern: "upright",
    },
    pages: {fill: ["#e9eef9", "#222d45"], line: ["#c3cfea", "#3a4a70"], ink: ["#2c3e6b", "#cfdbf7"], pattern: "dots"},
    offline: {
        fill: ["#f4f6f8", "#1a2129"],
        line: ["#dfe5ea", "#2a343e"],
        ink: ["#586676", "#9fadbb"],
        pattern: "falling",
    },
    twice: {fill: ["#b3261e", "#b3261e"], line: ["#8c1d18", "#8c1d18"], ink: ["#ffffff", "#ffffff"], pattern: "cross"},
};

/** Colours of the map around the CPUs, for light and dark pages: those of look.js. */
export const THEME = {
    cell: ["#f6f7f9", "#1b2127"],
    core: ["#ffffff", "#222931"],
    line: ["#dfe3e8", "#323b45"],
    edge: ["#b9c2cc", "#4b5763"],
    text: ["#17202b", "#e7eaee"],
    muted: ["#566270", "#a3aeba"],
    accent: ["#0a5f9e", "#72b9ee"],
    veil: ["#ffffffb8", "#14181dc4"],
};

/** Return a CSS colour that follows the page's colour scheme. */
export function lightDark([light, dark]) {
    return `light-dark(${light}, ${dark})`;
}

/** Return the CPUs of a kernel list as rising numbers: `"0-2,8"` gives `[0, 1, 2, 8]`. */
export function cpuNumbers(text) {
    return (text || "")
        .split(",")
        .filter(Boolean)
        .flatMap((part) => {
            const [first, last = first] = part.split("-").map(Number);
            return Array.from({length: last - first + 1}, (_, step) => first + step);
        });
}

/** Return numbers as a kernel list: `[0, 1, 2, 8]` gives `"0-2,8"`. */
export function cpuList(numbers) {
    const rising = [...new Set(numbers)].sort((one, other) => one - other);
    const ranges = [];
    for (const number of rising) {
        const last = ranges.at(-1);
        if (last && last[1] === number - 1) {
            last[1] = number;
        } else {
            ranges.push([number, number]);
        }
    }
    return ranges.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`)).join(",");
}

/** Return MiB in words: `1536` gives `1.5 GiB`, `512` gives `512 MiB`. */
export function mibText(mib) {
    const units = ["MiB", "GiB", "TiB", "PiB"];
    let [amount, unit] = [mib, 0];
    while (Math.abs(amount) >= 1024 && unit < units.length - 1) {
        amount /= 1024;
        unit += 1;
    }
    return `${Number.isInteger(amount) ? amount : amount.toFixed(amount < 10 ? 1 : 0)} ${units[unit]}`;
}

/** Return a page size in words: `2048` (KiB) gives `2 MiB`. */
export function pageText(kib) {
    return kib < 1024 ? `${kib} KiB` : mibText(kib / 1024);
}

/** Return a number with its noun: `count(1, "cell")` gives `1 cell`. */
export function count(number, noun) {
    return `${number} ${noun}${number === 1 ? "" : "s"}`;
}
