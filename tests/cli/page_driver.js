// Walks through a page as a person would, and writes what it found into #result.
(async () => {
  const pause = (ms = 0) => new Promise((done) => setTimeout(done, ms));
  const box = document.getElementById("list");
  const filter = document.getElementById("filter");
  const press = (key) => dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  const until = async (is) => { for (let turn = 0; turn < 2000 && !is(); turn++) await pause(5); };
  let most = 0;
  let text = "";
  // Everything that comes by on the way to the end, by what it is.
  async function walk() {
    const seen = { m: [], a: [], e: [] };
    text = "";
    box.scrollTop = 0;
    box.dispatchEvent(new Event("scroll"));
    for (let still = 0; still < 3;) {
      await pause();
      const articles = [...document.querySelectorAll("#window article")];
      most = Math.max(most, articles.length);
      for (const article of articles) {
        const seqs = seen[article.dataset.kind];
        if (!seqs.includes(Number(article.dataset.seq))) {
          seqs.push(Number(article.dataset.seq));
          text += article.textContent + "\n";
        }
      }
      const before = box.scrollTop;
      box.scrollTop += box.clientHeight * 0.7;
      box.dispatchEvent(new Event("scroll"));
      still = box.scrollTop === before ? still + 1 : 0;
    }
    return seen;
  }
  const look = (query) => {
    const before = document.body.dataset.job;
    filter.value = query;
    filter.dispatchEvent(new Event("input"));
    return until(() => document.body.dataset.job !== before);
  };
  const found = { faults: window.faults };
  try {
    await until(() => document.body.dataset.ready === "1");
    found.title = document.title;
    found.chat = await walk();
    found.text = text;
    await look("needle in");
    found.filtered = await walk();
    found.count = document.getElementById("count").textContent;
    found.marked = document.querySelectorAll("mark").length;
    await look("nothing is called that");
    found.none = document.getElementById("window").textContent;
    press("Escape");
    press("t");
    found.timeline = await walk();
    press("g");
    press("j");
    found.second = Number(document.activeElement.dataset.seq);
    press("Enter");
    found.jumped = Number(document.activeElement.dataset.seq);
    press("e");
    found.withEvents = await walk();
    const theme = document.documentElement.dataset.theme;
    press("d");
    found.isThemeChanged = document.documentElement.dataset.theme !== theme;
    found.most = most;
    found.elements = [...new Set([...document.querySelectorAll("#window *")].map((node) => node.localName))];
  } catch (error) {
    window.faults.push(String(error.stack));
  }
  const result = document.createElement("pre");
  result.id = "result";
  result.textContent = JSON.stringify(found);
  document.body.append(result);
})();
