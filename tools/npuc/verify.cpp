// SPDX-License-Identifier: MIT
#include "tools/npuc/verify.h"

#include <algorithm>
#include <set>

#include "common/command_line.h"
#include "tools/npuc/verify_inputs.h"
#include "tools/npuc/verify_network.h"

namespace npu::npuc {
namespace {

using Shapes = std::map<std::string, graph::Shape>;

/// Half of each dimension that a launch may choose and that the file leaves open; false: that is the same.
bool smaller(const compiler::Reference &reference, bool batch_alone, Shapes &shapes) {
  bool changed = false;
  for (const compiler::FileTensor &t : reference.inputs) {
    const auto &g = reference.graph;
    for (graph::ValueId v : g.inputs) {
      if (g[v].name != t.name) continue;
      graph::Shape shape = g[v].shape;
      for (size_t d = 0; d < shape.size(); ++d) {
        if ((t.has_shape && !t.open[d]) || (batch_alone && d > 0)) continue;
        changed = changed || shape[d] > 1;
        shape[d] = (shape[d] + 1) / 2;
      }
      shapes[t.name] = shape;
    }
  }
  return changed;
}

/// Why arrays have shapes that no launch may have; empty: all may.
std::string too_large(const compiler::Reference &reference, bool batch_alone, const Shapes &given) {
  const auto &g = reference.graph;
  for (const compiler::FileTensor &t : reference.inputs)
    for (graph::ValueId v : g.inputs) {
      const auto it = given.find(t.name);
      if (g[v].name != t.name || it == given.end()) continue;
      for (size_t d = 0; d < it->second.size(); ++d) {
        const bool open = (!t.has_shape || t.open[d]) && !(batch_alone && d > 0);
        const int64_t size = it->second[d], most = g[v].shape[d];
        if (size == most || (open && size > 0 && size < most)) continue;
        return "the array for input '" + printable(t.name) + "' has the shape " + graph::shape_text(it->second) +
               ", and dimension " + std::to_string(d) + (open ? " may be 1 to " : " is ") + std::to_string(most);
      }
    }
  return {};
}

/// A launch with the shapes of arrays.
Status run_given(const Verified &what, const VerifyArguments &args, const Chip &chip, const Shapes &stage,
                 const Shapes &given, Verification &out) {
  compiler::Options options = what.options;
  for (const auto &[name, shape] : stage) options.shapes[name] = shape;
  for (const auto &[name, shape] : given) options.shapes[name] = shape;
  ComparedNetwork network(what, args, std::move(options), out);
  NPU_TRY(network.import().within("--verify-input"));
  return network.compare(chip, nullptr, out.runs.emplace_back());
}

Status run_shapes(const Verified &what, const VerifyArguments &args, const Chip &chip, const Shapes &shapes,
                  Verification &out, Shapes &less, bool &has_less) {
  compiler::Options options = what.options;
  for (const auto &[name, shape] : shapes) options.shapes[name] = shape;
  ComparedNetwork network(what, args, std::move(options), out);
  NPU_TRY(network.import());
  has_less = smaller(network.reference(), what.dynamic_batch, less);
  Shapes given;
  if ((what.dynamic || what.dynamic_batch) && !args.inputs.empty())
    NPU_TRY(given_shapes(network.reference(), args, given));
  if (const std::string larger = too_large(network.reference(), what.dynamic_batch, given); !larger.empty())
    return Status::error("--verify-input: " + larger);
  if (!given.empty()) return run_given(what, args, chip, shapes, given, out);
  return network.compare(chip, nullptr, out.runs.emplace_back());
}

}  // namespace

Verdict VerifiedRun::verdict() const {
  Verdict worst = Verdict::Right;
  for (const OutputResult &o : outputs) worst = std::max(worst, o.verdict());
  return worst;
}

Verdict Verification::verdict() const {
  Verdict worst = understood.empty() ? Verdict::Right : Verdict::Wrong;
  for (const VerifiedRun &r : runs) worst = std::max(worst, r.verdict());
  return worst;
}

std::string Verification::reference() const {
  std::set<std::string> names;
  for (const VerifiedRun &r : runs) names.insert(r.reference);
  std::string out;
  for (const std::string &name : names) out += (out.empty() ? "" : " and ") + name;
  return out;
}

void Verification::add_note(const std::string &note) {
  if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
}

void add_options(CommandLine &line, VerifyArguments &args) {
  line.heading("Verification");
  Option &on =
      line.flag("--verify", args.on,
                "run what was compiled, and compare each output, part by part, with ONNX Runtime or npuc's evaluator; "
                "status 0: right, 3: wrong, 4: these inputs do not decide it");
  line.texts("--verify-input", "NAME=FILE.npy|FILE.npz", args.inputs,
             "values of an input, or of all: an array for each. Without it, inputs are the first sample of "
             "--calibrate, or random")
      .needs(on);
  line.texts("--verify-range", "NAME=LOW,HIGH", args.ranges, "random numbers of an input are between these").needs(on);
  line.number("--verify-seed", "N", args.seed, 0, INT64_MAX, "seed of random inputs").shows("1").needs(on);
  line.choice("--verify-reference", {"auto", "onnxruntime", "npuc"}, args.reference,
              "auto is ONNX Runtime where it is there and takes the file, else npuc's evaluator")
      .shows(args.reference)
      .needs(on);
  line.text("--verify-bmodel", "FILE", args.bmodel,
            "a .bmodel that was compiled from this file before, with the same options: it runs instead")
      .needs(on);
  line.flag("--verify-first", args.first,
            "if an output is wrong, look for the first tensor of the file that is, by compiling parts of it")
      .needs(on);
}

Status verify(const Verified &what, const VerifyArguments &args, Verification &out) {
  Chip chip;
  const bmodel::NetDesc &net = what.compiled[0].net;
  NPU_TRY(chip.load(what.bmodel, what.options.cores, what.options.lmem_bytes, args.bmodel.empty() ? nullptr : &net)
              .within(args.bmodel.empty() ? "--verify" : "--verify-bmodel " + args.bmodel));
  out.device = chip.device();
  Shapes less, ignored;
  bool has_less = false, again = false;
  for (size_t s = 0; s < std::max<size_t>(what.stages.size(), 1); ++s) {
    Shapes shapes;
    if (!what.stages.empty()) NPU_TRY(compiler::parse_stage(what.stages[s], shapes));
    Shapes &half = s ? ignored : less;
    NPU_TRY(run_shapes(what, args, chip, shapes, out, half, s ? again : has_less));
  }
  // Programs that the runtime compiles are compared as well. Arrays that are given have the shapes of the stage.
  if (!(what.dynamic || what.dynamic_batch) || !has_less || !args.inputs.empty()) return {};
  compiler::Options options = what.options;
  for (const auto &[name, shape] : less) options.shapes[name] = shape;
  ComparedNetwork network(what, args, std::move(options), out);
  if (const Status imported = network.import(); !imported.ok()) {
    out.add_note("not compared with smaller shapes: " + imported.message());
    return {};
  }
  return network.compare(chip, nullptr, out.runs.emplace_back());
}

}  // namespace npu::npuc
