// SPDX-License-Identifier: GPL-2.0-or-later
// The live page: asks for status.json each second and for history.json each five, and draws them.
const POLL_MS = 1000, HISTORY_MS = 5000, PATIENCE_MS = 5000;
const SERIES_MAX = 8, WAYS_MAX = 12; // curves of a chart; peers with a way drawn to each
const TALL = 66; // boxes of nodes that are lower have fewer lines
const byId = (id) => document.getElementById(id);

let status = null, before = null; // the last answer, and the one before, for rates
let history = null;
let lastAnswer = 0;

// ---- elements ----

function make(namespace, name, attributes, children) {
	const element = namespace ? document.createElementNS(namespace, name) : document.createElement(name);
	for (const [key, value] of Object.entries(attributes || {}))
		if (value !== null && value !== undefined && value !== false)
			element.setAttribute(key, value);
	element.append(...children.filter((child) => child !== null));
	return element;
}

const html = (name, attributes, ...children) => make(null, name, attributes, children);
const svg = (name, attributes, ...children) => make("http://www.w3.org/2000/svg", name, attributes, children);

// Changes the page only where it is another one: a screen reader does not begin anew each second.
function setText(element, text) {
	if (element.textContent !== text)
		element.textContent = text;
}

// ---- words and numbers ----

const known = (value) => typeof value === "number" && isFinite(value);

function number(value, digits = 1) {
	if (!known(value))
		return "?";
	const shown = Number.isInteger(value) ? value.toString() : value.toFixed(Math.abs(value) < 1 ? digits + 1 : digits);
	return shown.replace(/^(\d{2,})(\d{3})(?!\d)/, "$1\u202f$2");
}

function age(ms) {
	if (!known(ms))
		return "?";
	if (ms < 10000)
		return `${(ms / 1000).toFixed(1)} s`;
	const seconds = Math.round(ms / 1000);
	return seconds < 120 ? `${seconds} s` : seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}

// The words of "dprctl status".
function stateWord(member) {
	const active = member.state === "active";
	if (member.why_not === "dprd does not answer")
		return status.state; // "down" or "frozen"
	if (member.why_not === "heard")
		return active ? "heard" : member.state;
	if (member.self)
		return active ? "up" : member.state;
	if (member.eligible)
		return "up";
	if (member.why_not === "not heard")
		return "LATE";
	if (member.why_not === "never heard" || member.why_not === "no load table")
		return "?";
	return active ? "BARRED" : member.state;
}

function stateClass(word) {
	if (word === "up" || word === "heard")
		return "up";
	return word === "draining" ? "slow" : word === "?" ? "unknown" : "bad";
}

const isSilent = (member) => !member.self && ["LATE", "?"].includes(stateWord(member));
// A silent node's old numbers would look like new ones.
const announced = (member, key) => isSilent(member) ? null : member[key];

function forwardedTo(answer, name) {
	const member = answer && (answer.members || []).find((one) => one.name === name);
	return member && !member.self && known(member.forwarded_v4) ? member.forwarded_v4 + (member.forwarded_v6 || 0) : null;
}

// New connections per second to a member, since the last answer.
function rateTo(name) {
	const now = forwardedTo(status, name), then = forwardedTo(before, name);
	if (now === null || then === null || before.pid !== status.pid || now < then)
		return null;
	const seconds = status.uptime_seconds - before.uptime_seconds;
	return seconds > 0 ? (now - then) / seconds : null;
}

function shareOf(name) {
	const member = status.shared && (status.shared.members || []).find((one) => one.name === name);
	return member ? member.percent : null;
}

// ---- the picture of the cluster ----

// The last line of a box: the reason why a node gets nothing, the connections that it forwards, and its share.
function remarks(member) {
	const share = shareOf(member.name), why = member.why_not;
	const found = why && why !== member.state && why !== "heard" && !member.eligible ? [why] : [];
	if (known(announced(member, "redirected")))
		found.push(`forwards ${number(member.redirected)}`);
	return share === null ? found : [...found, `${number(share)}\u202f% of shared addresses`];
}

// Cuts a text that is wider than this, with a guess of the width of its letters.
function fit(text, width, letter = 8.2) {
	const most = Math.max(3, Math.floor(width / letter));
	return text.length > most ? `${text.slice(0, most - 1)}\u2026` : text;
}

function drawNode(member, x, y, width, height, most) {
	const word = stateWord(member), load = announced(member, "load"), rate = rateTo(member.name);
	const compact = height < TALL, shownWord = word === "?" ? "unknown" : word;
	const parts = [];
	if (known(announced(member, "open_connections")))
		parts.push(`${number(member.open_connections)} open`);
	if (known(announced(member, "arrivals_per_second")))
		parts.push(`${number(member.arrivals_per_second)}/s arrive`);
	const bar = width - 100, filled = known(load) && most > 0 ? Math.min(1, load / most) * bar : 0;
	const group = svg("g", { class: stateClass(word), transform: `translate(${x} ${y})`, "data-node": member.name, "data-word": word },
		svg("rect", { class: "box", x: 1, y: 1, width: width - 2, height: height - 2, rx: 8 }),
		svg("rect", { class: "stripe", x: 1, y: 1, width: 7, height: height - 2, rx: 3 }),
		svg("title", {}, member.name),
		svg("text", { class: "name", x: 18, y: 22 }, fit(member.name + (member.self ? " (this node)" : ""), width - 40 - shownWord.length * 8.2)),
		svg("text", { class: "word", x: width - 12, y: 22, "text-anchor": "end" }, shownWord));
	group.append(
		svg("rect", { class: "track", x: 18, y: 32, width: bar, height: 8, rx: 4 }),
		svg("rect", { class: "fill", x: 18, y: 32, width: filled, height: 8, rx: 4 }),
		svg("text", { class: "small", x: width - 12, y: 40, "text-anchor": "end" }, `load ${number(load)}`));
	if (!compact) {
		group.append(svg("text", { class: "small", x: 18, y: 58 }, fit(parts.join(" \u00b7 "), width - 24, 6.6)));
		group.append(svg("text", { class: "small", x: 18, y: 76 }, fit(remarks(member).join(" \u00b7 "), width - 24, 6.6)));
	} else if (rate > 0) {
		group.append(svg("text", { class: "small", x: 18, y: 58 }, `gets ${number(rate)}/s from here`));
	}
	return group;
}

function drawWay(peer, from, to, narrow) {
	const rate = rateTo(peer.name), idle = !(rate > 0);
	const width = idle ? 1.5 : Math.min(9, 2 + Math.log2(1 + rate));
	const middle = (from.x + to.x) / 2;
	const path = narrow ? `M ${from.x} ${from.y} V ${to.y} H ${to.x - 10}` :
		`M ${from.x} ${from.y} C ${middle} ${from.y} ${middle} ${to.y} ${to.x - 10} ${to.y}`;
	const text = rate === null ? "" : `${number(rate)}/s`;
	const at = narrow ? { x: from.x + 7, y: to.y - 10 } : { x: to.x - 26, y: to.y > from.y ? to.y + 20 : to.y - 10 };
	return svg("g", { "data-way": peer.name },
		svg("path", { class: idle ? "arrow idle" : "arrow", d: path, "stroke-width": width }),
		svg("path", { class: idle ? "tip idle" : "tip", d: `M ${to.x - 12} ${to.y - 7} L ${to.x - 1} ${to.y} L ${to.x - 12} ${to.y + 7} Z` }),
		text && !idle ? svg("text", { class: "small", x: at.x, y: at.y, "text-anchor": narrow ? "start" : "end" }, text) : null);
}

function describe(members) {
	return members.map((member) => {
		const rate = member.self ? null : rateTo(member.name);
		return `${member.name}: ${stateWord(member) === "?" ? "unknown" : stateWord(member)}, load ${number(announced(member, "load"))}` +
			(rate > 0 ? `, gets ${number(rate)} connections per second from this node` : "");
	}).join("; ");
}

// Places of the boxes. Wide: peers on the right of this node. Narrow: below it. Many peers: in a grid, without ways.
function layOut(peers, width, tall) {
	const narrow = width < 560, gap = 12;
	if (peers.length > WAYS_MAX) {
		const columns = Math.max(1, Math.floor((width + gap) / (190 + gap))), box = (width - gap * (columns - 1)) / columns;
		return { ways: false, box, height: TALL - 2, own: { x: 0, y: 0, width: Math.min(width, 400), height: tall },
			spots: peers.map((_, i) => ({ x: (i % columns) * (box + gap), y: tall + 16 + Math.floor(i / columns) * (TALL + gap) })) };
	}
	if (narrow)
		return { ways: true, narrow, box: width - 64, height: tall, own: { x: 0, y: 0, width, height: tall },
			spots: peers.map((_, i) => ({ x: 64, y: tall + 16 + i * (tall + gap) })) };
	const box = Math.min(300, (width - 110) / 2), total = Math.max(1, peers.length) * (tall + gap) - gap;
	return { ways: true, narrow, box, height: tall, own: { x: 0, y: (total - tall) / 2, width: box, height: tall },
		spots: peers.map((_, i) => ({ x: width - box, y: i * (tall + gap) })) };
}

function drawCluster() {
	const place = byId("picture"), members = status.members || [];
	const scale = parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;
	const width = Math.max(280, place.clientWidth / scale);
	const self = members.find((member) => member.self), peers = members.filter((member) => !member.self);
	const { ways, narrow, box, height, own, spots } = layOut(peers, width, 88);
	const total = Math.max(own.y + own.height, ...spots.map((spot) => spot.y + height));
	const loads = members.map((member) => announced(member, "load")).filter(known);
	const most = Math.max(known(status.max_load) ? status.max_load : 0, 1, ...loads);
	const picture = svg("svg", { viewBox: `0 0 ${width} ${total}`, role: "img", "aria-label": describe(members) });
	const drawn = !ways || !self ? [] : peers.map((peer, i) => ({ rate: rateTo(peer.name) || 0, way: drawWay(peer,
		narrow ? { x: 18, y: own.height } : { x: own.width, y: own.y + own.height / 2 },
		{ x: spots[i].x, y: spots[i].y + height / 2 }, narrow) }));
	// The busy ones lie above the others.
	picture.append(...drawn.sort((a, b) => a.rate - b.rate).map((one) => one.way));
	if (self)
		picture.append(drawNode(self, own.x, own.y, own.width, own.height, most));
	peers.forEach((peer, i) => picture.append(drawNode(peer, spots[i].x, spots[i].y, box, height, most)));
	place.replaceChildren(picture);
}

function drawShared() {
	const shared = status.shared, text = byId("shared");
	text.hidden = !(shared && shared.addresses && shared.addresses.length);
	if (!text.hidden)
		setText(text, `Shared addresses: ${shared.addresses.map((one) => one.address).join(", ")}. This node answers ` +
			`${number(shared.percent)}\u202f% of their new connections` +
			(known(shared.lease_ms) ? "." : "; it holds no lease at the moment."));
}

// ---- the last ten minutes ----

function niceTop(value) {
	if (!(value > 0))
		return 1;
	const power = 10 ** Math.floor(Math.log10(value));
	return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value);
}

function curves(series, x, y) {
	return series.map((one, i) => {
		let path = "", drawing = false;
		const group = svg("g", { class: `s${i % 8} d${Math.floor(i / 8) % 3}` });
		one.values.forEach((value, at) => {
			if (known(value)) {
				path += `${drawing ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
				if (!drawing && !known(one.values[at + 1]))
					group.append(svg("circle", { class: "dot", cx: x(at), cy: y(value), r: 2 }));
			}
			drawing = known(value);
		});
		group.append(svg("path", { class: "curve", d: path }));
		return group;
	});
}

const last = (values) => values.length ? values[values.length - 1] : null;

function drawChart(id, series, more = 0) {
	const place = byId(id), times = history.at_ms;
	const scale = parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;
	const width = Math.max(240, place.clientWidth / scale), height = 150, left = 42, bottom = 22, right = 8;
	const end = times.length ? last(times) : Date.now(), start = end - 600000;
	const top = niceTop(Math.max(0, ...series.flatMap((one) => one.values.filter(known))));
	const x = (at) => left + (width - left - right) * Math.max(0, (times[at] - start) / (end - start));
	const y = (value) => 8 + (height - bottom - 8) * (1 - Math.min(1, value / top));
	const summary = series.map((one) => `${one.name} ${number(last(one.values), 1)}`).join(", ");
	const chart = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Now: ${summary}` });
	for (const part of [0, 0.5, 1])
		chart.append(svg("line", { class: "grid", x1: left, x2: width - right, y1: y(top * part), y2: y(top * part) }),
			svg("text", { class: "small", x: left - 6, y: y(top * part) + 4, "text-anchor": "end" }, number(top * part)));
	for (const minutes of [10, 5, 0])
		chart.append(svg("text", { class: "small", x: left + (width - left - right) * (1 - minutes / 10), y: height - 5,
			"text-anchor": minutes === 10 ? "start" : minutes ? "middle" : "end" }, minutes ? `\u2212${minutes} min` : "now"));
	chart.append(...curves(series, x, y));
	const legend = html("ul", { class: "legend" }, ...series.map((one, i) =>
		html("li", { class: `s${i % 8}` }, `${one.name} ${number(last(one.values), 1)}`)));
	if (more > 0)
		legend.append(html("li", { class: "more" }, `the highest of ${series.length + more}`));
	place.replaceChildren(chart, legend);
}

// With many nodes: those with the highest last values.
function byMember(key) {
	const all = history.members.map((member) => ({ name: member.name, values: member[key] }));
	if (all.length <= SERIES_MAX)
		return all;
	return all.sort((a, b) => (last(b.values) || 0) - (last(a.values) || 0)).slice(0, SERIES_MAX);
}

function drawHistory() {
	if (!history)
		return;
	drawChart("rates", [{ name: "served here", values: history.served_per_second },
		{ name: "forwarded", values: history.forwarded_per_second },
		{ name: "taken from peers", values: history.taken_per_second }]);
	const more = Math.max(0, history.members.length - SERIES_MAX);
	drawChart("arrivals", byMember("arrivals_per_second"), more);
	drawChart("loads", byMember("load"), more);
	drawChart("imbalance", [{ name: "imbalance", values: history.imbalance }]);
}

// ---- the table of nodes, warnings, head ----

const columns = [
	["State", "state", (member) => stateWord(member) === "?" ? "unknown" : stateWord(member)],
	["Load", "load", (member) => number(announced(member, "load"))],
	["Open", "open_connections", (member) => number(announced(member, "open_connections"))],
	["Arrive/s", "arrivals_per_second", (member) => number(announced(member, "arrivals_per_second"))],
	["Forwards now", "redirected", (member) => number(announced(member, "redirected"))],
	["From here", "forwarded", (member) => member.self ? "\u2013" : number(forwardedTo(status, member.name))],
	["From here/s", "rate", (member) => member.self ? "\u2013" : number(rateTo(member.name))],
	["CPU", "cpu_ratio", (member) => known(announced(member, "cpu_ratio")) ? `${Math.round(member.cpu_ratio * 100)}\u202f%` : "?"],
	["Weight", "weight", (member) => number(member.weight)],
	["Heard", "age_ms", (member) => member.self ? "\u2013" : age(member.age_ms)],
	["Address", "address", (member) => member.address || "?"],
	["Version", "version", (member) => member.version || "?"],
];
const texts = ["state", "address", "version"];

function drawMembers() {
	const table = byId("members"), members = status.members || [];
	const names = members.map((member) => member.name).join("\n");
	if (!table.tHead.rows.length)
		table.tHead.append(html("tr", {}, html("th", { scope: "col", class: "text" }, "Node"),
			...columns.map(([title, key]) => html("th", { scope: "col", class: texts.includes(key) ? "text" : null }, title))));
	if (table.dataset.names !== names) {
		table.dataset.names = names;
		table.tBodies[0].replaceChildren(...members.map((member) => html("tr", { "data-member": member.name },
			html("th", { scope: "row" }, member.name), ...columns.map(([, key]) =>
				html("td", { "data-key": key, class: texts.includes(key) ? "text" : null })))));
	}
	members.forEach((member, row) => columns.forEach(([, key, text], column) => {
		const cell = table.tBodies[0].rows[row].cells[column + 1];
		setText(cell, text(member));
		if (key === "state")
			cell.className = `text word ${stateClass(stateWord(member))}`;
	}));
}

function drawWarnings() {
	const warnings = status.warnings || [], notes = status.notes || [], list = byId("warning-list");
	const items = [...warnings.map((warning) => [warning.text, warning.advice, ""]),
		...notes.map((note) => typeof note === "string" ? [note, "", "note"] : [note.text, note.advice, "note"])];
	const now = JSON.stringify(items);
	if (list.dataset.items === now)
		return;
	list.dataset.items = now;
	list.replaceChildren(...items.map(([text, advice, kind]) =>
		html("li", { class: kind || null }, text, advice ? html("span", { class: "cure" }, advice) : null)));
	if (!items.length)
		list.append(html("li", { class: "fine" }, "None: all is well."));
	setText(byId("warning-count"), warnings.length ? String(warnings.length) : "");
	byId("warnings").className = warnings.length ? "some" : "";
	byId("warning-count").className = warnings.length ? "count bad" : "count";
}

function showBanner(text) {
	const banner = byId("banner");
	banner.hidden = !text;
	setText(banner, text);
}

function drawHead() {
	const answers = status.schema === "dprd.status/1", pill = byId("state");
	const self = (status.members || []).find((member) => member.self);
	const word = answers ? (self ? stateWord(self) : status.state) : status.state;
	if (status.cluster) // the files do not tell it
		setText(byId("cluster"), status.cluster);
	setText(byId("node"), status.node);
	setText(pill, word);
	pill.className = `pill ${answers ? stateClass(word) : "bad"}`;
	setText(byId("facts"), answers ? `policy ${status.policy} \u00b7 ${status.datapath} \u00b7 up ${age(status.uptime_seconds * 1000)}` : "");
	setText(byId("version"), status.version ? `dprd ${status.version}` : "");
	document.title = `${(status.warnings || []).length ? `(${status.warnings.length}) ` : ""}${status.node} \u2013 ${byId("cluster").textContent}`;
	showBanner(answers ? "" : `dprd of ${status.node} does not answer (${status.state}). The values below are what its files say.`);
}

function draw() {
	drawHead();
	drawWarnings();
	drawCluster();
	drawShared();
	drawMembers();
}

// ---- asking ----

async function ask(path) {
	const answer = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) });
	return answer.json();
}

async function pollStatus() {
	if (document.hidden)
		return;
	try {
		const answer = await ask("status.json");
		lastAnswer = Date.now();
		// Rates need two answers of different times.
		if (status && answer.uptime_seconds !== status.uptime_seconds)
			before = status;
		status = answer;
		draw();
	} catch (error) {
		if (Date.now() - lastAnswer > 2 * POLL_MS) {
			showBanner("dprd-web does not answer: what stands below is old. Is the network well, and does it run (systemctl status dprd-web)?");
			byId("state").className = "pill unknown";
			setText(byId("state"), "unknown");
		}
	}
}

async function pollHistory() {
	if (document.hidden)
		return;
	try {
		history = await ask("history.json");
		drawHistory();
	} catch (error) {
		// pollStatus() tells it.
	}
}

// Asks again after an answer, not beside it, so that a slow server has one question of each page.
async function repeat(work, pause) {
	for (;;) {
		const began = Date.now();
		await work();
		await new Promise((resolve) => setTimeout(resolve, Math.max(pause / 4, pause - (Date.now() - began))));
	}
}

// ---- why ----

const endpoint = (address, port) => address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`;

function showDecision(decision) {
	const where = decision.target ? `to ${decision.target}` : "";
	const peers = (decision.peers || []).length ? html("table", {},
		html("thead", {}, html("tr", {}, ...["Node", "Load", "Age", "Sent since", "Eligible"].map((title) => html("th", { scope: "col" }, title)))),
		html("tbody", {}, ...decision.peers.map((peer) => html("tr", {}, html("th", { scope: "row" }, peer.name),
			...[number(peer.load), age(peer.age_ms), number(peer.sent_since), peer.eligible ? "yes" : "no"].map((text) => html("td", {}, text)))))) : null;
	return html("article", {},
		html("p", {}, html("strong", {}, endpoint(decision.client, decision.client_port)),
			` \u2192 ${endpoint(decision.service, decision.service_port)}, ${age(decision.age_ms)} ago`),
		html("p", {}, html("strong", {}, `${decision.verdict} ${where}`.trim()), `: ${decision.reason_text} (${decision.reason})`),
		html("p", { class: "quiet" }, `policy ${decision.policy}, own load ${number(decision.own_load)}` +
			(decision.threshold ? `, forwards from ${number(decision.max_load)}` : "")), peers);
}

async function searchWhy(event) {
	event.preventDefault();
	const client = byId("client").value.trim(), place = byId("decisions");
	let answer;
	try {
		answer = await ask(`why.json?client=${encodeURIComponent(client)}`);
	} catch (error) {
		answer = { error: "dprd-web does not answer" };
	}
	if (answer.error)
		place.replaceChildren(html("p", { class: "bad" }, answer.error));
	else if (!answer.decisions.length)
		place.replaceChildren(html("p", {}, `No decision about ${client}: it is not among the last new connections of ${answer.node}.`));
	else
		place.replaceChildren(...answer.decisions.map(showDecision),
			answer.more ? html("p", { class: "quiet" }, "There are older decisions.") : "");
}

byId("why").addEventListener("submit", searchWhy);
new ResizeObserver(() => {
	if (status)
		drawCluster();
	drawHistory();
}).observe(document.querySelector("main"));
document.addEventListener("visibilitychange", () => { pollStatus(); pollHistory(); });
repeat(pollStatus, POLL_MS);
repeat(pollHistory, HISTORY_MS);
