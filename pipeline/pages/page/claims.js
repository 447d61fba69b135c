"use strict";
(() => {
  const byId = (id) => document.getElementById(id);

  // Links of Google Search stop working: what is past is shown as past, whenever the page is read.
  for (const element of document.querySelectorAll("[data-expires]")) {
    element.classList.toggle("expired", Date.parse(element.dataset.expires) <= Date.now());
  }

  // A claim's card: what the lists beside the text say of it, where the reader is.
  const card = byId("card");
  let shown = null;
  let leaving = 0;
  const copyOf = (id) => {
    const copy = byId(id)?.cloneNode(true);
    copy?.removeAttribute("id");
    copy?.removeAttribute("tabindex");
    return copy;
  };
  const fill = (claim) => {
    const parts = [];
    for (const id of claim.dataset.claims.trim().split(" ")) {
      const entry = byId(id);
      if (!entry) continue;
      const head = document.createElement("div");
      head.className = entry.className;
      head.append(...copyOf(id).querySelectorAll(".standing"));
      parts.push(head);
      const sources = entry.dataset.sources.trim();
      for (const source of sources ? sources.split(" ") : []) {
        const copy = copyOf(source);
        if (!copy) continue;
        const box = document.createElement("div");
        box.className = "source";
        box.append(...copy.childNodes);
        // The card scrolls as a whole.
        for (const name of ["class", "tabindex", "role", "aria-label"]) {
          box.querySelector("blockquote")?.removeAttribute(name);
        }
        parts.push(box);
      }
    }
    card.replaceChildren(...parts);
  };
  const place = (claim, x) => {
    const boxes = [...claim.getClientRects()];
    const box = boxes.find((each) => x >= each.left && x <= each.right) || boxes[0];
    const width = card.offsetWidth;
    const left = Math.min(Math.max(box.left, 8), document.documentElement.clientWidth - width - 8);
    const below = box.bottom + 6 + card.offsetHeight < window.innerHeight;
    const top = below || box.top < card.offsetHeight + 6 ? box.bottom + 6 : box.top - card.offsetHeight - 6;
    card.style.left = `${Math.max(left, 8) + window.scrollX}px`;
    card.style.top = `${top + window.scrollY}px`;
  };
  const light = (claim, on) => {
    for (const id of claim.dataset.claims.trim().split(" ")) byId(id)?.classList.toggle("lit", on);
  };
  const close = () => {
    clearTimeout(leaving);
    if (shown) light(shown, false);
    shown = null;
    card.hidden = true;
  };
  const open = (claim, x = NaN) => {
    clearTimeout(leaving);
    if (shown === claim) return;
    close();
    shown = claim;
    light(claim, true);
    fill(claim);
    card.hidden = false;
    place(claim, x);
  };
  const leave = () => {
    clearTimeout(leaving);
    leaving = setTimeout(close, 250);
  };
  const claimOf = (event) => event.target.closest?.("a.claim");
  document.addEventListener("pointerover", (event) => {
    if (event.pointerType !== "mouse") return;
    if (card.contains(event.target)) clearTimeout(leaving);
    else if (claimOf(event)) open(claimOf(event), event.clientX);
    else if (shown && document.activeElement !== shown) leave();
  });
  document.addEventListener("focusin", (event) => {
    if (claimOf(event)) open(claimOf(event));
    else if (!card.contains(event.target)) close();
  });
  // By a tap or a click the card comes; Enter goes on to the claim in the list, where its links can be reached.
  document.addEventListener("click", (event) => {
    const claim = claimOf(event);
    if (claim && event.detail > 0) {
      event.preventDefault();
      open(claim, event.clientX);
    } else if (!card.contains(event.target)) close();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
  });

  // A link into a closed part opens it.
  const reveal = () => {
    const target = location.hash.length > 1 && byId(decodeURIComponent(location.hash.slice(1)));
    if (target) {
      target.closest("details")?.setAttribute("open", "");
      target.focus({ preventScroll: true });
      target.scrollIntoView({ block: "nearest" });
    }
  };
  addEventListener("hashchange", reveal);
})();
