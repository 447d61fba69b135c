"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const token = document.querySelector("meta[name=groundrows-token]").content;
  const say = (text) => (byId("said").textContent = text);

  // Parts of pages come from this server's own templates, in which all texts of others are escaped.
  const load = async (address, into) => {
    try {
      const answer = await fetch(address);
      const text = await answer.text();
      const page = new DOMParser().parseFromString(text, "text/html");
      into.replaceChildren(...document.adoptNode(page.body).childNodes);
    } catch {
      const words = document.createElement("p");
      words.className = "quiet";
      words.textContent = "The reader does not answer any more: start it again.";
      into.replaceChildren(words);
    }
  };

  // On a narrow screen what narrows the list down comes when it is asked for.
  const narrow = document.querySelector(".narrow");
  if (narrow && matchMedia("(max-width: 60rem)").matches) narrow.open = false;
  const facets = byId("facets");
  if (facets) load(facets.dataset.load, facets).then(() => facets.removeAttribute("aria-busy"));

  const fill = async (details) => {
    const { load: address, text } = details.dataset;
    if (address) {
      delete details.dataset.load;
      await load(address, details.querySelector(".behind-it"));
    } else if (text) {
      delete details.dataset.text;
      const pre = details.querySelector("pre");
      try {
        pre.textContent = await (await fetch(text)).text();
      } catch {
        pre.textContent = "The reader does not answer any more: start it again.";
      }
    }
  };
  // The event does not bubble.
  document.addEventListener("toggle", (event) => event.target.open && fill(event.target), true);

  // Verdicts.
  const show = (entry, { verdict, note, version }) => {
    entry.dataset.version = version;
    entry.dataset.note = note;
    const badge = entry.querySelector(".badge.judged");
    badge.dataset.verdict = badge.textContent = verdict;
    badge.hidden = !verdict;
    for (const each of entry.querySelectorAll("button[data-verdict]")) {
      each.setAttribute("aria-pressed", each.dataset.verdict === verdict);
    }
  };
  const outcome = (entry, text, bad, ...buttons) => {
    say(text);
    const place = entry.querySelector(".outcome");
    if (!place) return;
    place.classList.toggle("bad", bad);
    place.replaceChildren(text, ...buttons.flatMap((each) => [" ", each]));
  };
  const choice = (name, act) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = name;
    button.addEventListener("click", act);
    return button;
  };
  const verdictOf = (entry) => entry.querySelector(".badge.judged").dataset.verdict;
  const noteOf = (entry) => entry.querySelector("textarea[name=note]")?.value ?? entry.dataset.note;
  const judge = async (entry, verdict, note) => {
    const given = { no: Number(entry.dataset.no), verdict, note, version: Number(entry.dataset.version) };
    let answer, said;
    try {
      answer = await fetch("/verdict", {
        method: "POST",
        headers: { "Content-Type": "application/json", "X-Groundrows-Token": token },
        body: JSON.stringify(given),
      });
      said = answer.headers.get("Content-Type")?.startsWith("application/json")
        ? await answer.json()
        : { error: await answer.text() };
    } catch {
      outcome(entry, "Not saved: the reader does not answer any more. Start it again, and save once more.", true);
      return;
    }
    if (answer.ok) {
      show(entry, said);
      outcome(entry, verdict ? `Saved: ${verdict}.` : "Saved.", false);
    } else if (answer.status === 409) {
      const theirs = `${said.verdict || "no verdict"}${said.note ? `, “${said.note}”` : ""}`;
      const keep = () => {
        entry.dataset.version = said.version;
        judge(entry, verdict, note);
      };
      const take = () => {
        show(entry, said);
        const field = entry.querySelector("textarea[name=note]");
        if (field) field.value = said.note;
        outcome(entry, "Kept theirs.", false);
      };
      if (!entry.querySelector(".outcome")) await unfold(entry);
      outcome(
        entry,
        `Not saved: another window said ${theirs}.`,
        true,
        choice("Keep theirs", take),
        choice(`Save mine${verdict ? `: ${verdict}` : ""}`, keep),
      );
    } else {
      outcome(entry, `Not saved: ${said.error || answer.statusText}`, true);
    }
  };
  const unfold = async (entry) => {
    const details = entry.querySelector("details");
    const filled = fill(details);
    details.open = true;
    await filled;
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("button[data-verdict]");
    if (!button) return;
    const entry = button.closest(".entry");
    const again = verdictOf(entry) === button.dataset.verdict;
    judge(entry, again ? "" : button.dataset.verdict, noteOf(entry));
  });
  document.addEventListener("submit", (event) => {
    if (!event.target.matches(".judge")) return;
    event.preventDefault();
    const entry = event.target.closest(".entry");
    judge(entry, verdictOf(entry), noteOf(entry));
  });

  // Another order is shown as soon as it is chosen.
  byId("sort")?.addEventListener("change", (event) => event.target.form.requestSubmit());

  // Keys.
  const help = byId("help");
  byId("open-help")?.addEventListener("click", () => help.showModal());
  help.querySelector("[data-close]").addEventListener("click", () => help.close());
  const switched = byId("keys-on");
  switched.checked = localStorage.getItem("keys") !== "off";
  switched.addEventListener("change", () => localStorage.setItem("keys", switched.checked ? "on" : "off"));

  const entries = () => [...document.querySelectorAll(".entry")];
  const current = () => document.activeElement?.closest(".entry");
  const go = (step) => {
    const all = entries();
    const at = all.indexOf(current());
    const next = at < 0 ? (step > 0 ? 0 : all.length - 1) : at + step;
    if (all[next]) {
      const summary = all[next].querySelector("summary");
      summary.focus({ preventScroll: true });
      all[next].scrollIntoView({ block: "nearest" });
    } else document.querySelector(step > 0 ? "a[rel=next]" : "a[rel=prev]")?.click();
  };
  const toggle = () => {
    const details = current()?.querySelector("details");
    if (details) details.open = !details.open;
  };
  const said = (verdict) => {
    const entry = current();
    if (entry?.dataset.kind === "answer") judge(entry, verdict, noteOf(entry));
  };
  const keys = {
    j: () => go(1),
    n: () => go(1),
    k: () => go(-1),
    p: () => go(-1),
    o: toggle,
    g: () => current() && location.assign(current().dataset.page),
    1: () => said("right"),
    2: () => said("wrong"),
    3: () => said("unsure"),
    0: () => said(""),
    "/": () => (byId("q") ? byId("q").select() : location.assign("/")),
    "?": () => help.showModal(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || help.open || !switched.checked) return;
    if (event.target.closest("input, select, textarea")) return;
    const act = Object.hasOwn(keys, event.key) ? keys[event.key] : null;
    if (act) {
      event.preventDefault();
      act();
    }
  });
})();
