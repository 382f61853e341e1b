// SPDX-License-Identifier: MIT
// npuc --verify-first: the network up to a tensor is compiled with that tensor as its output, for several tensors.
#include <algorithm>
#include <map>
#include <set>

#include "tools/npuc/verify_network.h"

namespace npu::npuc {
namespace {

using graph::Graph;
using graph::ValueId;

/// A result of the file's nodes that an output is computed from.
struct Candidate {
  ValueId value;
  const graph::Node *node;
};

class Search {
 public:
  Search(const Verified &what, const VerifyArguments &args, const VerifiedRun &run, Verification &out)
      : what_(what), args_(args), run_(run), out_(out), options_(what.options) {
    options_.optimize = {};
    options_.dump_folder.clear();
    options_.memory_maps = false;
    if (options_.quantize.type == quantize::Type::None) return;
    // The same integers as those of the whole network.
    options_.quantize.samples = nullptr;
    options_.quantize.table = what.compiled[0].quantized.table;
    options_.quantize.means = what.compiled[0].quantized.means;
    options_.quantize.accuracy = {};
    options_.quantize.progress = nullptr;
  }

  Status run() {
    Verification ignored;
    for (const auto &[name, shape] : shapes_of_run()) options_.shapes[name] = shape;
    ComparedNetwork shaped(what_, args_, options_, ignored);
    NPU_TRY(shaped.import());
    reference_ = shaped.reference();
    if (!out_.understood.empty()) return first_not_understood();
    for (const OutputResult &output : run_.outputs)
      if (output.verdict() == Verdict::Wrong) return first_behind(output.name);
    return {};
  }

 private:
  /// The shapes that the values have, which are the graph's inputs of the file in their order.
  std::map<std::string, graph::Shape> shapes_of_run() const {
    std::map<std::string, graph::Shape> out;
    for (size_t i = 0; i < run_.values.size() && i < what_.compiled[0].net.stages[0].inputs.size(); ++i)
      out[what_.compiled[0].net.stages[0].inputs[i].name] = run_.values[i].shape;
    return out;
  }

  /// In the order of the graph: `output` and what it is computed from.
  std::vector<Candidate> candidates(const std::string &output) const {
    const Graph &g = reference_.graph;
    std::vector<bool> needed(g.values.size());
    for (size_t k = 0; k < g.outputs.size(); ++k)
      if (g.output_names[k] == output) needed[graph::at(g.outputs[k])] = true;
    std::vector<Candidate> out;
    std::set<std::string> names;
    for (size_t i = g.nodes.size(); i-- > 0;) {
      const graph::Node &n = g.nodes[i];
      if (!needed[graph::at(n.output)]) continue;
      for (ValueId v : n.inputs)
        if (v != graph::kNoValue) needed[graph::at(v)] = true;
      const std::string &name = g[n.output].name;
      if (reference_.results.count(name) && names.insert(name).second) out.push_back({n.output, &n});
    }
    std::reverse(out.begin(), out.end());
    return out;
  }

  const std::string &name(const Candidate &c) const { return reference_.graph[c.value].name; }

  /// Compiles the network up to a tensor, runs it and compares. What cannot be compiled alone is taken for right.
  bool is_wrong(const Candidate &c) {
    const auto [known, fresh] = results_.try_emplace(name(c));
    if (fresh) (void)judge(name(c), known->second);
    return known->second.verdict() == Verdict::Wrong;
  }

  /// The types that an output of the network was compiled with; none for other tensors.
  graph::IoTypes::Side types_of(const std::string &tensor) const {
    graph::IoTypes::Side out;
    const bool is_output = std::ranges::any_of(run_.outputs, [&](const OutputResult &o) { return o.name == tensor; });
    if (!is_output) return out;
    out.all = what_.options.io_types.outputs.all;
    if (const auto found = what_.options.io_types.outputs.named.find(tensor);
        found != what_.options.io_types.outputs.named.end())
      out.named.insert(*found);
    return out;
  }

  Status judge(const std::string &tensor, OutputResult &out) {
    compiler::Options options = options_;
    options.outputs = {tensor};
    options.io_types.outputs = types_of(tensor);
    compiler::Compiled compiled;
    std::vector<uint8_t> bytes;
    NPU_TRY(compiler::compile_onnx_file(what_.model, options, compiled));
    NPU_TRY(compiler::write_bmodel(compiled, bytes));
    Chip chip;
    NPU_TRY(chip.load(bytes, options.cores, options.lmem_bytes));
    Verification ignored;
    ComparedNetwork network(what_, args_, options, ignored);
    NPU_TRY(network.import());
    VerifiedRun run;
    NPU_TRY(network.compare(chip, &run_.values, run));
    out = std::move(run.outputs.at(0));
    return {};
  }

  /// The nearest results of the file that a node reads, directly or by nodes that npuc has added.
  std::vector<Candidate> operands(const Candidate &c, const std::vector<Candidate> &all) const {
    const Graph &g = reference_.graph;
    const std::vector<int> made = g.producers();
    std::vector<Candidate> out;
    std::vector<ValueId> open = c.node->inputs;
    std::set<ValueId> seen;
    while (!open.empty()) {
      const ValueId v = open.back();
      open.pop_back();
      if (v == graph::kNoValue || !seen.insert(v).second || made[graph::at(v)] < 0) continue;
      const auto it = std::find_if(all.begin(), all.end(), [&](const Candidate &k) { return k.value == v; });
      if (it != all.end()) {
        out.push_back(*it);
        continue;
      }
      const auto &inputs = g.nodes[static_cast<size_t>(made[graph::at(v)])].inputs;
      open.insert(open.end(), inputs.begin(), inputs.end());
    }
    return out;
  }

  Status first_behind(const std::string &output) {
    const std::vector<Candidate> all = candidates(output);
    if (!all.empty()) NPU_TRY(judge(name(all.back()), results_[name(all.back())]));
    if (all.empty() || !is_wrong(all.back())) {
      out_.searched = "output '" + output +
                      "' is right where it is the only output, so no single tensor is the reason: --turns never, "
                      "another --lmem or --cores 1 may tell which way of computing the whole network is";
      return {};
    }
    size_t right = 0, wrong = all.size();  // one more than the last that is right; that is wrong
    while (wrong - right > 1) {
      const size_t middle = right + (wrong - right) / 2;
      (is_wrong(all[middle - 1]) ? wrong : right) = middle;
    }
    Candidate found = all[wrong - 1];
    std::vector<Candidate> read = operands(found, all);
    for (size_t k = 0; k < read.size();) {
      if (!is_wrong(read[k])) {
        ++k;
        continue;
      }
      found = read[k];
      read = operands(found, all);
      k = 0;
    }
    FirstDifference &first = out_.first.emplace();
    const graph::Source &source = reference_.graph.sources[static_cast<size_t>(found.node->source)];
    first.tensor = name(found);
    first.node = source.name;
    first.type = source.type;
    for (const Candidate &c : read) first.agreed.push_back(name(c));
    first.result = results_.at(name(found));
    return {};
  }

  /// Compares all tensors of the evaluator with those of ONNX Runtime.
  Status first_not_understood() {
    const std::vector<Candidate> all = candidates(out_.understood[0].name);
    compiler::Options options = options_;
    for (const Candidate &c : all) options.outputs.push_back(name(c));
    Verification every;
    ComparedNetwork network(what_, args_, options, every);
    NPU_TRY(network.import());
    NPU_TRY(network.understand(run_.values));
    if (every.understood.empty()) {
      out_.searched = "no tensor alone is understood differently";
      return {};
    }
    FirstDifference &first = out_.first.emplace();
    first.result = every.understood[0];
    first.tensor = first.result.name;
    for (const Candidate &c : all) {
      if (name(c) != first.tensor) continue;
      const graph::Source &source = reference_.graph.sources[static_cast<size_t>(c.node->source)];
      first.node = source.name;
      first.type = source.type;
      for (const Candidate &r : operands(c, all)) first.agreed.push_back(name(r));
    }
    return {};
  }

  const Verified &what_;
  const VerifyArguments &args_;
  const VerifiedRun &run_;
  Verification &out_;
  compiler::Options options_;
  compiler::Reference reference_;
  std::map<std::string, OutputResult> results_;
};

}  // namespace

Status find_first(const Verified &what, const VerifyArguments &args, Verification &out) {
  for (const VerifiedRun &run : out.runs)
    if (run.verdict() == Verdict::Wrong || !out.understood.empty()) return Search(what, args, run, out).run();
  return {};
}

}  // namespace npu::npuc
