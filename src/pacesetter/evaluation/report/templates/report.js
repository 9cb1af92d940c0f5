// Tabs, tables that are searched, pictures that are unpacked and drawn when they are seen, and the Persian words.
const all = (selector, root = document) => [...root.querySelectorAll(selector)]
const most = {{ most_rows }}
const options = { displaylogo: false, responsive: true }
let figures = []

async function unpacked(id) {
  const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), letter => letter.charCodeAt(0))
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text()
}

function draw(place) {
  const { data, layout } = structuredClone(figures[place.dataset.figure])
  delete layout.width
  if (!place.dataset.drawn) place.replaceChildren() // the plain drawing that stood here without a script
  Plotly.react(place, data, layout, options)
  place.style.height = ""
  place.dataset.drawn = place.dataset.figure
}

// a hidden picture has no width, so it is drawn when its tab is opened
function drawShown() {
  if (!figures.length) return
  for (const place of all(".figure")) {
    if (place.offsetParent !== null && place.dataset.drawn !== place.dataset.figure) draw(place)
  }
}

function openTab(name) {
  for (const part of all(".part, .inside")) part.classList.toggle("shown", part.dataset.of === name)
  for (const tab of all("[role=tab]")) {
    const is = tab.dataset.tab === name
    tab.setAttribute("aria-selected", is)
    tab.tabIndex = is ? 0 : -1
  }
  drawShown()
}

function openAnchor() {
  if (location.hash === "#print") {
    document.body.classList.remove("tabbed")
    drawShown()
    return
  }
  const target = location.hash.length > 1 ? document.getElementById(decodeURIComponent(location.hash.slice(1))) : null
  openTab((target ? target.closest(".part") : document.querySelector(".part"))?.dataset.of)
  if (target) target.scrollIntoView()
}

function setUpTabs() {
  const tabs = all("[role=tab]")
  if (!tabs.length) return
  document.body.classList.add("tabbed")
  for (const [at, tab] of tabs.entries()) {
    tab.onclick = event => { event.preventDefault(); openTab(tab.dataset.tab) }
    tab.onkeydown = event => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key]
      if (!step) return
      const next = tabs[(at + step + tabs.length) % tabs.length]
      next.focus()
      openTab(next.dataset.tab)
    }
  }
  addEventListener("hashchange", openAnchor)
  addEventListener("beforeprint", () => { document.body.classList.remove("tabbed"); drawShown() })
  addEventListener("afterprint", () => { document.body.classList.add("tabbed"); openAnchor() })
  openAnchor()
}

function setUpTables() {
  for (const finder of all(".finder")) {
    const [input, button] = [finder.querySelector("input"), finder.querySelector("button")]
    const rows = all("tbody tr", finder.nextElementSibling)
    let isWhole = false
    const show = () => {
      const wanted = input.value.toLowerCase()
      rows.forEach((row, at) => {
        const is = wanted ? row.textContent.toLowerCase().includes(wanted) : isWhole || at < most
        row.classList.toggle("cut", !is)
      })
    }
    input.oninput = show
    button.onclick = () => {
      isWhole = !isWhole
      button.dataset.english = isWhole ? "Show fewer" : "Show all"
      button.textContent = word(button.dataset.english)
      show()
    }
    show()
  }
}

function setUpPickers() {
  for (const picker of all(".picker")) {
    const [input, place, names] = [picker.querySelector("input"), picker.nextElementSibling, all("option", picker)]
    const choose = name => {
      const option = names.find(each => each.value === name)
      if (!option) return
      input.value = name
      place.dataset.figure = option.dataset.place
      drawShown()
    }
    input.onchange = () => choose(input.value)
    input.onfocus = () => input.select()
    for (const button of all("button", picker)) {
      button.onclick = () => {
        const at = names.findIndex(each => each.value === input.value) + Number(button.dataset.step)
        choose(names[(at + names.length) % names.length].value)
      }
    }
  }
}

// ---- language: the fixed words, and sentences that brought their Persian along
const persian = JSON.parse(document.getElementById("persian").textContent)
const word = text => (document.documentElement.lang === "fa" && persian[text]) || text

function setUpLanguage() {
  const button = document.getElementById("language")
  button.hidden = false
  for (const node of all("[data-word], [data-persian]")) node.dataset.english = node.textContent
  const use = language => {
    Object.assign(document.documentElement, { lang: language, dir: language === "fa" ? "rtl" : "ltr" })
    Object.assign(button, { textContent: language === "fa" ? "English" : "فارسی", lang: language === "fa" ? "en" : "fa" })
    for (const node of all("[data-word]")) node.textContent = word(node.dataset.english)
    for (const node of all("[data-persian]")) {
      node.textContent = node.dataset[language === "fa" ? "persian" : "english"]
      node.dir = language === "fa" ? "rtl" : "auto" // a Persian line may begin with a word such as GO
    }
  }
  button.onclick = () => use(document.documentElement.lang === "fa" ? "en" : "fa")
  if (new URLSearchParams(location.search).get("language") === "fa") use("fa")
}

async function start() {
  setUpLanguage()
  setUpTabs()
  setUpTables()
  setUpPickers()
  if (!document.getElementById("figures")) return
  const script = document.createElement("script")
  script.textContent = await unpacked("plotly")
  document.head.append(script)
  figures = JSON.parse(await unpacked("figures"))
  drawShown()
}
start()
