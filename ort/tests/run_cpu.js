// SPDX-License-Identifier: MIT
// A program that was written for the CPU: the digits of the test images, a network that is only partly the NPU's, and
// networks with bodies. It prints what it found, and nothing of where.
//
// usage: node run_cpu.js DIGITS NETWORKS
'use strict';

const ort = require(process.env.TEST_RUNTIME || 'onnxruntime-node'); // the one line
const fs = require('fs');
const path = require('path');

const EXTRA = process.env.TEST_OPTIONS ? { extra: JSON.parse(process.env.TEST_OPTIONS) } : {};

function readTable(file) {
  const bytes = fs.readFileSync(file);
  return { count: bytes.readUInt32LE(4), size: bytes.readUInt32LE(8) * bytes.readUInt32LE(12), data: bytes.subarray(16) };
}

async function readDigits(folder) {
  const session = await ort.InferenceSession.create(path.join(folder, 'digits.onnx'), { ...EXTRA });
  const pictures = readTable(path.join(folder, 'test_images.bin'));
  const labels = readTable(path.join(folder, 'test_labels.bin'));
  let right = 0;
  for (let i = 0; i < 50; i++) {
    const pixels = Float32Array.from(pictures.data.subarray(i * 64, i * 64 + 64), (v) => v / 16);
    const input = new ort.Tensor('float32', pixels, [1, 1, 8, 8]);
    const results = await session.run({ [session.inputNames[0]]: input });
    const row = Array.from(results[session.outputNames[0]].data);
    if (row.indexOf(Math.max(...row)) === labels.data[i]) right++;
  }
  return right;
}

async function runPartly(folder) {
  const options = { ...EXTRA };
  if (process.env.TEST_PROFILE) Object.assign(options, { enableProfiling: true, profileFilePrefix: process.env.TEST_PROFILE });
  const session = await ort.InferenceSession.create(fs.readFileSync(path.join(folder, 'partly.onnx')), options);
  const numbers = Float32Array.from({ length: 64 }, (_, i) => Math.sin(i));
  const results = await session.run({ x: new ort.Tensor('float32', numbers, [4, 16]) });
  session.endProfiling && session.endProfiling();
  return session.outputNames.map((name) =>
    Array.from(results[name].data, (v) => (typeof v === 'bigint' ? String(v) : v.toFixed(4))).join(' '));
}

// Inputs take both branches of an If, and a Loop no turn and several.
async function runBodies(folder) {
  const lines = [];
  const x = new ort.Tensor('float32', Float32Array.from({ length: 512 }, (_, i) => Math.cos(i)), [4, 128]);
  for (const name of ['if_shapes', 'if_captures', 'loop_turns', 'nested', 'scan_wide', 'same_if', 'same_scan_alone']) {
    const session = await ort.InferenceSession.create(path.join(folder, `${name}.onnx`), { ...EXTRA });
    for (const choice of [0, 3]) {
      const all = {
        x,
        go: new ort.Tensor('bool', Uint8Array.of(choice ? 1 : 0), [1]),
        turns: new ort.Tensor('int64', BigInt64Array.of(BigInt(choice)), [1]),
      };
      const results = await session.run(Object.fromEntries(session.inputNames.map((input) => [input, all[input]])));
      for (const output of session.outputNames) {
        const { data, dims } = results[output];
        const mean = Array.from(data).reduce((a, b) => a + Math.abs(b), 0) / data.length;
        lines.push(`${name} ${choice} ${output} [${dims}] ${mean.toFixed(3)}`);
      }
    }
  }
  return lines;
}

async function main() {
  const [digits, networks] = process.argv.slice(2);
  console.log(`${await readDigits(digits)} of 50 digits`);
  for (const line of await runPartly(networks)) console.log(line);
  for (const line of await runBodies(networks)) console.log(line);
}

main().catch((error) => {
  console.log(`error: ${error.message}`);
  process.exitCode = 1;
});
