"use strict";
(() => {
  const byId = (id) => document.getElementById(id);

  // The slider. All texts are set as text, never as markup.
  const slider = byId("threshold");
  if (slider) {
    const data = JSON.parse(byId("data").textContent);
    const cursor = document.querySelector("svg .cursor");
    const number = new Intl.NumberFormat("en-US");
    const item = ([, prediction, searched, text], grounded) => {
      const entry = document.createElement("li");
      const score = document.createElement("span");
      score.className = "score";
      score.textContent = prediction.toFixed(3);
      const words = document.createElement("bdi");
      words.textContent = text;
      entry.append(score, " ", words);
      if (searched !== grounded) {
        const badge = document.createElement("span");
        badge.className = "badge";
        badge.textContent = searched ? "searched" : "not searched";
        entry.append(" ", badge);
      }
      return entry;
    };
    const show = () => {
      const step = Math.round(slider.value * (data.grounded.length - 1));
      const grounded = data.grounded[step];
      const first = data.prompts.findIndex(([at]) => at >= step);
      const split = first < 0 ? data.prompts.length : first;
      byId("threshold-value").textContent = Number(slider.value).toFixed(2);
      byId("grounded").textContent = number.format(grounded);
      byId("grounded-share").textContent = `${((100 * grounded) / data.grounded[0]).toFixed(1)} %`;
      const around = (from, to) => data.prompts.slice(Math.max(from, 0), to);
      byId("above").replaceChildren(...around(split, split + data.around).map((each) => item(each, true)));
      byId("below").replaceChildren(...around(split - data.around, split).reverse().map((each) => item(each, false)));
      if (cursor) {
        const x = slider.value * cursor.dataset.width;
        cursor.setAttribute("x1", x);
        cursor.setAttribute("x2", x);
      }
    };
    slider.addEventListener("input", show);
    show();
  }

  const all = document.querySelectorAll(".answer > details");
  byId("open-all")?.addEventListener("click", () => all.forEach((each) => (each.open = true)));
  byId("close-all")?.addEventListener("click", () => all.forEach((each) => (each.open = false)));
  const cards = document.querySelectorAll(".answer > details, details.change");
  addEventListener("beforeprint", () => cards.forEach((each) => (each.open = true)));
})();
