// SPDX-License-Identifier: MIT
// libnpuc: an ONNX network in, a .bmodel out.
//
// Nothing here prints, exits or throws; a Status says what is wrong. Equal input gives equal bytes. No global state:
// any number of threads may compile.
#ifndef NPU_COMPILER_NPUC_H
#define NPU_COMPILER_NPUC_H

#include <algorithm>
#include <map>

#include "common/status.h"
#include "compiler/graph/obstacle.h"
#include "compiler/graph/tensor.h"
#include "compiler/passes/io_types.h"
#include "compiler/quantize/quantize.h"
#include "compiler/schedule/progress.h"
#include "runtime/bmodel/builder.h"

namespace npu::compiler {

/// Whether runs of operators are computed in turns: a band of rows or some pictures of a batch after the other.
enum class TakeTurns : uint8_t { Faster, Never, Always };  ///< where that is faster; never; also where it is slower

struct Options {
  int64_t lmem_bytes = 8 << 20;  ///< local memory of the card's cores
  int cores = 1;                 ///< that a program may use
  bool all_cores = false;        ///< also where fewer are faster, if the network can be cut at all
  TakeTurns turns = TakeTurns::Faster;
  std::string name;                                ///< of the network; empty: the graph's
  std::map<std::string, graph::Shape> shapes;      ///< of inputs whose dimensions the file leaves open
  std::map<std::string, graph::TensorPtr> values;  ///< of inputs that are constants: they are no inputs any more
  /// Inputs whose batch alone is open get the batch 1, with a sentence in Report::warnings.
  bool assume_batch = false;
  /// A branch of an If that cannot be compiled becomes an error of launches that choose it, where the other one can be.
  bool failing_branches = true;
  std::vector<std::string> outputs;  ///< tensors of the file in place of its outputs; none: its own
  graph::IoTypes io_types;           ///< element types of inputs and outputs
  /// Where the graph is written after each pass, as NN-PASS.txt and NN-PASS.dot; empty: nowhere. The folder exists.
  std::string dump_folder;
  /// A search for a better schedule, one for each program of the network; null: none. Asked before each batch of
  /// candidates whether to go on; the same answers give the same bytes.
  KeepSearching optimize;
  /// A file of the best schedules that were found (compiler/schedule/records.h); empty: none. They are used, a search
  /// begins with them and writes back what is better. Without a search the file exists.
  std::string schedule_file;
  /// In which type the chip stores real numbers between operators, and what they multiply with: float32, float16,
  /// bfloat16 (compiler/passes/use_half.cpp). Inputs and outputs keep theirs.
  graph::Dtype reals = graph::Dtype::F32;
  /// Makes a network of integers of one of float32.
  quantize::Options quantize;
  bool memory_maps = false;  ///< the report has Report::memory and Report::edges
  bool io_alone = false;     ///< addr_mode 1: programs keep state in the network's own input memory
};

/// Cores of a card at most.
inline constexpr int kMaxCores = 8;
inline constexpr int64_t kMinLmemBytes = 64 << 10, kMaxLmemBytes = 256 << 20;

/// Cycles of a program's critical path by what they go to.
struct Spent {
  uint64_t compute = 0;       ///< arithmetic of the TIU
  uint64_t local_memory = 0;  ///< by which moving bytes in local memory takes longer than that
  uint64_t memory = 0;        ///< moving bytes from and to memory, and what that takes longer than the TIU's work
  uint64_t latency = 0;       ///< before the first byte or result of each command

  void add(const Spent &other);
  /// "compute", "local memory", "memory" or "latency": what most cycles go to; empty: there are none.
  std::string most() const;
};

/// What became of one node of the ONNX file.
struct LayerReport {
  std::string name, type;
  std::vector<graph::TensorKind> outputs;  ///< its results, as they are computed
  /// "TIU", "GDMA", "CPU", several of them with +, or what made commands unnecessary: "view", "folded", "in NODE", "in
  /// its nodes"
  std::string where;
  bool on_tiu = false, on_gdma = false, on_cpu = false;
  int64_t commands = 0, tiles = 0, lmem_bytes = 0;
  uint64_t macs = 0;
  uint64_t mac_rate = 1;                 ///< of 8 or 16 bits: so many take the place of one of 32 bits
  uint64_t bytes = 0;                    ///< from and to memory, as the chip's model counts them
  uint64_t cycles = 0;                   ///< of the network's, during which its end waits for this node; equal to the
                                         ///< sum of `spent`, and those of all nodes to Report::cycles
  uint64_t active = 0;                   ///< cycles in which a command of it is at work
  uint64_t tiu_busy = 0, gdma_busy = 0;  ///< cycles of its commands, of all cores
  Spent spent;

  /// What bounds it: as Spent::most(), "hidden" where its commands run beside those of others only, empty for a node
  /// without commands.
  std::string bound() const;
};

/// A piece of memory that a program uses for something.
struct HeldReport {
  size_t core = 0;
  uint64_t address = 0, bytes = 0;
  uint64_t from = 0, to = 0;  ///< cycles: begin of the first command that touches it, end of the last one
  size_t layer = 0;           ///< index in Report::layers: who writes it, or reads it where nobody does
  std::string name;           ///< of the tensor; may be empty
  const char *kind = "";      ///< "tensor", "tile buffer", "weights", "exchange", "input", "output", "coefficients"
};

/// What is where, while the network runs.
struct MemoryReport {
  std::vector<HeldReport> local;         ///< by addresses in a core's local memory
  std::vector<HeldReport> activations;   ///< by offsets in activation memory
  std::vector<HeldReport> outside;       ///< inputs and outputs; without addresses, which come with a launch
  std::vector<HeldReport> coefficients;  ///< by offsets in the coefficients: what each node reads
};

/// A tensor that one node computes and another one reads.
struct EdgeReport {
  /// In place of a node: the tensor is an input or output of the network.
  static constexpr size_t kOutside = SIZE_MAX;

  size_t from = kOutside, to = kOutside;  ///< indices in Report::layers
  std::string tensor;                     ///< name, may be empty
  graph::TensorKind kind;                 ///< type and shape, as they are in the file
};

/// Nodes of the file, from one to another one, that are computed in turns.
struct RunReport {
  std::string first, last;
  int axis = 0;         ///< of the last one's result, along which it is cut
  int64_t count = 0;    ///< of pieces
  int64_t repeats = 1;  ///< so often: within pieces of other runs
};

/// What all programs of a network compute in turns, and what that saves.
struct TurnsReport {
  std::vector<RunReport> runs;
  uint64_t plain_cycles = 0, cycles = 0;  ///< of those programs without turns, and with them
  uint64_t plain_bytes = 0, bytes = 0;    ///< of results that go through memory
};

/// Searches of all programs of a network together.
struct SearchReport {
  uint64_t programs = 0, recorded = 0;    ///< all; those for which the file has a schedule
  uint64_t tried = 0;                     ///< schedules
  uint64_t plain_cycles = 0, cycles = 0;  ///< without search; with it
  double seconds = 0;
};

struct Report {
  std::vector<LayerReport> layers;
  int64_t lmem_used = 0, lmem_bytes = 0;
  size_t cores = 1;  ///< that are used
  uint64_t cycles = 0, mac_bound = 0, memory_bound = 0;
  uint64_t macs = 0;                             ///< of what the chip computes, however many cores repeat some of them
  uint64_t array_macs = 0;                       ///< the same, those of 8 or 16 bits as so many of 32 as take that time
  uint64_t order_bound = 0, constant_bytes = 0;  ///< bounds.h; the former of parts that one core computes
  uint64_t moved_io_bytes = 0;                   ///< bounds.h: inputs and outputs of the programs
  uint64_t tiu_busy = 0, gdma_busy = 0;
  uint64_t coeff_bytes = 0, io_bytes = 0, ctx_bytes = 0;
  uint64_t code_bytes = 0;     ///< commands as the runtime uploads them
  uint64_t between_bytes = 0;  ///< tensors between sub-networks
  /// Card memory for one launch at a time.
  uint64_t launch_bytes() const { return coeff_bytes + code_bytes + io_bytes + ctx_bytes + between_bytes; }
  uint64_t tiu_commands = 0, gdma_commands = 0;
  MemoryReport memory;            ///< empty unless the options want it
  std::vector<EdgeReport> edges;  ///< the network's graph; empty unless the options want it
  size_t imported_layers = 0;     ///< layers of the file; passes have added those behind them
  TurnsReport turns;
  SearchReport search;
  uint64_t host_parts = 0, host_nodes = 0;  ///< sub-networks for the CPU, and their operators
  /// Sentences about what the user may not expect: assumed shapes, branches and numbers that are not as in the file.
  std::vector<std::string> warnings;
  /// What the importer has changed: types that were converted.
  std::vector<std::string> notes;
  /// Indices of the layers with most cycles, the most first, of those that have any.
  std::vector<size_t> costliest(size_t most) const;
  /// The largest of the lower bounds. No program of the network takes fewer cycles.
  uint64_t bound() const { return std::max({mac_bound, memory_bound, order_bound}); }
  /// False where the CPU computes all of the network.
  bool uses_chip() const { return tiu_commands + gdma_commands > 0; }
  /// The report as a table for people.
  std::string text() const;
};

/// Why a network could not be compiled, and what would help.
struct Refusal {
  std::string message;  ///< of the Status
  graph::Obstacle obstacle = graph::Obstacle::Other;
  std::string help;          ///< for the whole, where no single node is the reason; may be empty
  graph::Findings findings;  ///< nodes that are the reason; may be empty

  /// The message, with what would help.
  std::string text() const;
};

struct Compiled {
  bmodel::NetDesc net;  ///< one stage; add_stage() makes more
  Report report;
  quantize::Result quantized;  ///< where the options ask for it
  Refusal refusal;             ///< after an error
};

/// Compiles an ONNX file's bytes.
Status compile_onnx(const void *bytes, size_t size, const Options &options, Compiled &out);
Status compile_onnx_file(const std::string &path, const Options &options, Compiled &out);

/// Where a node of an ONNX file would run, and why.
struct NodePlace {
  size_t node = 0;  ///< its place in the file
  std::string name, type;
  bool compiled = true;  ///< false: the file cannot be compiled because of it
  bool added = false;    ///< by npuc: the file does not have it, and `node` means nothing
  std::string where;     ///< as LayerReport::where, "folded" also where nothing is to do; empty where it is not known
  std::string reason;    ///< why it is not compiled, not on the chip or of unknown place; what it was added for
  std::string input;     ///< not compiled only because of this input of the file, whose shape is open, for example
  std::string help;      ///< a remedy where it is not compiled
};

/// The findings of --explain.
struct Explanation {
  std::vector<NodePlace> nodes;              ///< those of the file, then those that npuc adds
  std::vector<std::string> warnings, notes;  ///< as Report's
};

/// Looks at every node that the outputs need, whether or not the file can be compiled. A node behind one that cannot be
/// is looked at, too, where the file says which shape and type its operands have. Without `places` it compiles nothing,
/// and says of no node where it runs.
Status explain_onnx(const void *bytes, size_t size, const Options &options, bool places, Explanation &out);
Status explain_onnx_file(const std::string &path, const Options &options, Explanation &out);
/// For people: a line for each node that does not run on the chip, one for all that an input keeps from being compiled,
/// what would help, and how many there are of each kind.
std::string explain_text(const Explanation &explanation);

/// Adds the stage of `more`, the same network compiled for other shapes.
Status add_stage(const Compiled &more, Compiled &to);

/// Marks the network as dynamic and puts the ONNX file into it: dimensions that the file leaves open may be anything up
/// to those of a stage, the runtime compiles for what a launch has. A file that leaves none open is an error.
Status make_dynamic(const void *bytes, size_t size, Compiled &compiled);
Status make_dynamic_file(const std::string &path, Compiled &compiled);

/// Marks the network as dynamic in its batch alone: launches run in the smallest stage that holds it. Dimension 0 of
/// all tensors of a stage has to be the batch; that results of one row do not depend on others is the caller's word.
Status make_batch_dynamic(Compiled &compiled);

/// The container's bytes.
Status write_bmodel(const Compiled &compiled, std::vector<uint8_t> &out);

/// "64K", "8M", "262144": a size in bytes.
bool parse_size(const std::string &text, int64_t &out);
/// Whether the chip can have so much local memory.
Status check_lmem(int64_t bytes);
/// "input=1,3,224,224;mask=1,224": the shapes of a stage.
Status parse_stage(const std::string &text, std::map<std::string, graph::Shape> &shapes);
/// The parts of parse_input()'s text.
struct InputValue {
  std::string name;
  graph::TensorPtr numbers;  ///< null: they are in the file
  std::string file;
};
/// Takes such a text apart; reads no file.
Status split_input(const std::string &text, InputValue &out);
/// "NAME=VALUE[,VALUE...]" (one number: without dimensions) or "NAME=FILE.npy": the value of an input.
Status parse_input(const std::string &text, std::map<std::string, graph::TensorPtr> &values);
/// "TYPE" (of all) or "NAME=TYPE"; TYPE is int8, uint8, float16 or fp16, bfloat16 or bf16, float32 or fp32. `option` is
/// for the message of an error.
Status parse_io_type(const std::string &option, const std::string &text, graph::IoTypes::Side &side);
/// "input=1,3,224,224". `option` is for the message of an error.
Status parse_shape(const std::string &text, std::map<std::string, graph::Shape> &shapes,
                   const std::string &option = "--shape");

}  // namespace npu::compiler

#endif  // NPU_COMPILER_NPUC_H
