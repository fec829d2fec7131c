// The search of the built site without a browser: its own worker, its own index. Reads a list of queries as JSON from
// standard input, and writes for each the locations of its results, best first.
import fs from "node:fs";
import path from "node:path";
import vm from "node:vm";

const site = process.argv[2];
const workers = path.join(site, "assets/javascripts/workers");
const source = fs.readFileSync(path.join(workers, fs.readdirSync(workers).find((name) => name.endsWith(".js"))), "utf8");
const index = JSON.parse(fs.readFileSync(path.join(site, "search.json"), "utf8"));

let answered;
const worker = { postMessage: (message) => answered(message) };
vm.runInContext(source, vm.createContext({ self: worker, Intl }));

// The messages are those that the page sends to the worker: 0 the index, 2 a query; 3 is an answer.
function send(type, data) {
    return new Promise((resolve) => {
        answered = resolve;
        worker.onmessage({ data: { type, data } });
    });
}

await send(0, index);
const results = {};
for (const input of JSON.parse(fs.readFileSync(0, "utf8"))) {
    const filter = { input: { type: "operator", data: { operator: "and", operands: [] } } };
    const { type, data } = await send(2, { input, filter });
    if (type !== 3) throw new Error(`the worker of the search answers ${type}: its messages have changed`);
    results[input] = data.items.map((item) => index.items[item.id].location);
}
process.stdout.write(JSON.stringify(results));
