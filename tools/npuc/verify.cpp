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

/// Names the first array whose shape no launch may have; empty: none.
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

/// The launches of a network.
class Launches {
 public:
  Launches(const Verified &what, const VerifyArguments &args, const Chip &chip, Verification &out)
      : what_(what), args_(args), chip_(chip), out_(out) {}

  /// Compares a launch with the shapes of a stage. The first stage that takes the arrays of --verify-input has them, in
  /// a launch with their shapes; then other stages have no launch.
  Status stage(const Shapes &shapes) {
    ComparedNetwork network(what_, args_, options(shapes, {}), out_);
    NPU_TRY(network.import());
    if (half_.empty()) has_half_ = smaller(network.reference(), what_.dynamic_batch, half_);
    Shapes given;
    if (is_dynamic() && !args_.inputs.empty()) NPU_TRY(given_shapes(network.reference(), args_, given));
    if (given.empty()) return compare(network);
    if (has_given_) return {};
    const std::string larger = too_large(network.reference(), what_.dynamic_batch, given);
    if (!larger.empty()) {
      if (larger_.empty()) larger_ = larger;
      return {};
    }
    has_given_ = true;
    ComparedNetwork launched(what_, args_, options(shapes, given), out_);
    NPU_TRY(launched.import().within("--verify-input"));
    return compare(launched);
  }

  /// Reports arrays that no stage takes.
  Status check_given() const {
    return has_given_ || larger_.empty() ? Status() : Status::error("--verify-input: " + larger_);
  }

  /// Compares smaller shapes than the first stage's, for which the runtime compiles.
  Status half() {
    if (!is_dynamic() || !has_half_ || !args_.inputs.empty()) return {};
    ComparedNetwork network(what_, args_, options(half_, {}), out_);
    if (const Status imported = network.import(); !imported.ok()) {
      out_.add_note("not compared with smaller shapes: " + imported.message());
      return {};
    }
    return compare(network);
  }

 private:
  bool is_dynamic() const { return what_.dynamic || what_.dynamic_batch; }

  compiler::Options options(const Shapes &stage, const Shapes &given) const {
    compiler::Options out = what_.options;
    for (const auto &[name, shape] : stage) out.shapes[name] = shape;
    for (const auto &[name, shape] : given) out.shapes[name] = shape;
    return out;
  }

  Status compare(ComparedNetwork &network) {
    VerifiedRun run;
    NPU_TRY(network.compare(chip_, nullptr, run));
    out_.runs.push_back(std::move(run));
    return {};
  }

  const Verified &what_;
  const VerifyArguments &args_;
  const Chip &chip_;
  Verification &out_;
  Shapes half_;  ///< half of the first stage's
  bool has_half_ = false, has_given_ = false;
  std::string larger_;  ///< reason for which the first stage does not take the arrays
};

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
              .within(args.bmodel.empty() ? "--verify" : "--verify-bmodel " + printable(args.bmodel)));
  out.device = chip.device();
  Launches launches(what, args, chip, out);
  const auto kept = [&out](const Status &status, const std::string &launch) -> Status {
    if (status.ok() || out.verdict() != Verdict::Wrong) return status;
    out.add_note("not compared with " + launch + ": " + status.message());
    return {};
  };
  for (size_t s = 0; s < std::max<size_t>(what.stages.size(), 1); ++s) {
    Shapes shapes;
    if (!what.stages.empty()) NPU_TRY(compiler::parse_stage(what.stages[s], shapes));
    NPU_TRY(kept(launches.stage(shapes), what.stages.empty() ? "" : "--stage " + printable(what.stages[s])));
  }
  NPU_TRY(launches.check_given());
  return kept(launches.half(), "smaller shapes");
}

}  // namespace npu::npuc
