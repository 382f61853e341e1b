// SPDX-License-Identifier: MIT
// Schedules that follow choices, the search for better ones, and the file that keeps them.
#include "compiler/schedule/search.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "compiler/graph/evaluate.h"
#include "compiler/passes/passes.h"
#include "compiler/schedule/check_sync.h"
#include "compiler/schedule/mutate.h"
#include "compiler/schedule/records.h"
#include "tests/unit/compiler/cases.h"
#include "tests/unit/compiler/chip.h"
#include "tests/unit/compiler/onnx_builder.h"

namespace npu::test {
namespace {

using compiler::Choices;
using compiler::Lowered;
using compiler::Program;
using compiler::Record;
using compiler::RecordKey;
using compiler::Records;
using compiler::SearchState;

constexpr int64_t kLeast = compiler::kMinLmemBytes;
constexpr int64_t kSizes[] = {kLeast, 4 * kLeast};

/// Branches that can change places, sums, and layers with many weights for few pixels.
OnnxBuilder branches() {
  OnnxBuilder b;
  const auto conv = [&](const std::string &x, int64_t from, int64_t to, int64_t kernel, int64_t stride) {
    const std::string y = b.op("Conv", {x, b.weights({to, from, kernel, kernel}), b.weights({to})});
    b.attr("strides", Dims{stride, stride}).attr("pads", Dims(4, kernel / 2));
    return b.op("Relu", {y});
  };
  const std::string x = conv(b.input({1, 3, 32, 32}), 3, 32, 3, 1), left = conv(x, 32, 32, 3, 2);
  const std::string right = conv(conv(x, 32, 16, 1, 1), 16, 32, 3, 2), sum = b.op("Add", {left, right});
  const std::string joined = b.op("Concat", {conv(sum, 32, 48, 3, 2), conv(sum, 32, 48, 1, 2)});
  b.attr("axis", int64_t{1});
  const std::string y = b.op("Flatten", {conv(joined, 96, 96, 3, 2)});
  b.output(b.op("MatMul", {y, b.weights({96 * 16, 50})})).output(b.op("Sigmoid", {b.op("GlobalAveragePool", {sum})}));
  return b;
}

/// Matrices that meet, softmax, and changes of order.
OnnxBuilder attention() {
  OnnxBuilder b;
  const std::string x = b.input({4, 40, 64});
  const auto dense = [&] { return b.op("MatMul", {x, b.weights({64, 64})}); };
  const std::string q = dense(), k = b.op("Transpose", {dense()});
  b.attr("perm", Dims{0, 2, 1});
  const std::string a = b.op("Softmax", {b.op("MatMul", {q, k})}), y = b.op("MatMul", {a, dense()});
  b.output(b.op("Relu", {b.op("Add", {b.op("MatMul", {y, b.weights({64, 64})}), x})}));
  return b;
}

const std::vector<OnnxBuilder> &networks() {
  static const std::vector<OnnxBuilder> all{branches(), attention()};
  return all;
}

/// A network as the code generator sees it.
struct Network {
  Network(const OnnxBuilder &b, int64_t lmem) : graph(import_graph(b.bytes())) {
    graph::fold_affine(graph);
    graph::fuse_activation(graph);
    graph::expand_reduce(graph);
    graph::CoreGraph core = graph::alone(graph);
    EXPECT_TRUE(compiler::lower_all(core, lmem, lowered).ok());
    graph = std::move(core.graph);
  }
  graph::Graph graph;
  Lowered lowered;
};

std::vector<uint8_t> encoded(const std::vector<compiler::Command> &stream) {
  std::vector<uint8_t> out;
  for (const compiler::Command &c : stream) {
    const auto bytes = compiler::encode(c);
    out.insert(out.end(), bytes.begin(), bytes.end());
  }
  return out;
}

/// A name for a file of this test, which does not exist, and does not stay.
class File {
 public:
  File() {
    const auto *info = testing::UnitTest::GetInstance()->current_test_info();
    path = testing::TempDir() + info->test_suite_name() + info->name() + std::to_string(getpid());
    std::filesystem::remove(path);
  }
  ~File() { std::filesystem::remove(path); }
  void write(const std::string &text) const { std::ofstream(path, std::ios::trunc) << text; }
  std::string read() const {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::string path;
};

/// Goes on until so many schedules have been tried.
compiler::KeepSearching until(size_t count) {
  return [count](const SearchState &s) { return s.tried < count; };
}

struct Compiled {
  bmodel::StageDesc stage;
  compiler::Report report;
};

Status try_compile(const OnnxBuilder &b, const compiler::Options &options, Compiled &out) {
  compiler::Compiled all;
  const std::string file = b.bytes();
  NPU_TRY(compiler::compile_onnx(file.data(), file.size(), options, all));
  out = {all.net.stages[0], all.report};
  return {};
}

Compiled compile(const OnnxBuilder &b, const compiler::Options &options) {
  Compiled out;
  EXPECT_EQ(try_compile(b, options, out).message(), "");
  return out;
}

void expect_same_program(const bmodel::StageDesc &a, const bmodel::StageDesc &b) {
  EXPECT_EQ(a.tiu, b.tiu);
  EXPECT_EQ(a.gdma, b.gdma);
  EXPECT_EQ(a.coeff, b.coeff);
  EXPECT_EQ(a.lmem_bytes, b.lmem_bytes);
}

/// The chip gets what the evaluator gets, in as many cycles as the compiler says.
void expect_right(const OnnxBuilder &b, const bmodel::StageDesc &stage, int64_t lmem) {
  const graph::Graph g = import_graph(b.bytes());
  std::vector<graph::Tensor> inputs, outputs;
  std::vector<std::vector<float>> values;
  for (graph::ValueId v : g.inputs) {
    auto &x = values.emplace_back(static_cast<size_t>(graph::element_count(g[v].shape)));
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>((i * 37 + values.size()) % 101) / 50.0f - 1.0f;
    inputs.push_back(*graph::make_f32(g[v].shape, x));
  }
  ASSERT_TRUE(graph::evaluate_graph(g, inputs, outputs).ok());
  const ChipResult result = run_on_chip(stage, values, lmem);
  EXPECT_EQ(result.cycles, stage.cycles);
  ASSERT_EQ(result.outputs.size(), outputs.size());
  for (size_t k = 0; k < outputs.size(); ++k) {
    const float *want = outputs[k].as<float>();
    EXPECT_EQ(compare(result.outputs[k], {want, want + outputs[k].count()}, 1e-4), "") << "output " << k;
  }
}

/// The order of a network's operators with one more move, and whether every reader still follows its writers.
TEST(OperatorOrder, ChangesAsFarAsOperandsAllow) {
  const Network n(branches(), kSizes[1]);
  const auto &ops = n.lowered.ops;
  const auto count = static_cast<uint32_t>(ops.size());
  size_t moved = 0;
  for (uint32_t op = 0; op < count; ++op) {
    const std::vector<uint32_t> order = compiler::order_of(n.lowered, {{op, 0}});
    std::vector<size_t> at(count, SIZE_MAX);
    for (size_t i = 0; i < order.size(); ++i) at[order[i]] = i;
    EXPECT_EQ(std::count(at.begin(), at.end(), SIZE_MAX), 0) << "each operator once";
    moved += at[op] < op;
    for (uint32_t a = 0; a < count; ++a)
      for (uint32_t b = a + 1; b < count; ++b) {
        bool meet = ops[a].out.storage == ops[b].out.storage;
        for (const compiler::View *v : ops[b].inputs()) meet = meet || v->storage == ops[a].out.storage;
        for (const compiler::View *v : ops[a].inputs()) meet = meet || v->storage == ops[b].out.storage;
        EXPECT_TRUE(!meet || at[a] < at[b]) << "with operator " << op << " moved";
      }
  }
  EXPECT_GT(moved, 0u);
  const std::vector<uint32_t> plain = compiler::order_of(n.lowered, {});
  EXPECT_EQ(compiler::order_of(n.lowered, {{count, 0}, {0, count}, {0, 1}, {1, 1}}), plain) << "these are none";
}

/// Choices as the search makes them, piled up: all programs are ordered, and the chip gets what the evaluator gets.
TEST(Search, AllCandidatesAreRight) {
  for (const OnnxBuilder &b : networks())
    for (int64_t lmem : kSizes) {
      const Network n(b, lmem);
      const RecordKey key{compiler::hash_of(n.lowered), lmem};
      compiler::Mutator mutator(n.lowered, lmem);
      Choices choices{.lmem_bytes = lmem};
      std::vector<uint64_t> waits(n.lowered.ops.size(), 1);
      size_t made = 0;
      for (int i = 0; i < 70; ++i) {
        choices = mutator.mutated(choices, waits);
        Program program;
        if (!compiler::make_program(n.lowered, n.graph.sources, choices, nullptr, program).ok()) continue;
        ++made;
        waits = compiler::waits_of(program);
        const auto tiu = encoded(program.streams.cores[0].tiu), gdma = encoded(program.streams.cores[0].gdma);
        ASSERT_EQ(compiler::check_sync(tiu, gdma).message(), "") << "candidate " << i;
        ASSERT_LE(program.lmem_bytes, lmem);
        if (i % 10) continue;
        Records records;
        records.add(key, {choices, program.streams.timeline.cycles});
        const File file;
        file.write(records.text());
        const Compiled compiled =
            compile(b, {.lmem_bytes = lmem, .turns = compiler::TakeTurns::Never, .schedule_file = file.path});
        ASSERT_EQ(compiled.report.search.recorded, 1u) << "the file has the program of candidate " << i;
        ASSERT_EQ(compiled.stage.tiu, tiu);
        expect_right(b, compiled.stage, lmem);
        ASSERT_FALSE(HasFailure()) << records.text();
      }
      EXPECT_GT(made, 40u);
    }
}

/// What has been remembered of other programs changes nothing.
TEST(Search, ProgramsDoNotDependOnTheMemo) {
  const Network n(branches(), kSizes[1]);
  compiler::Mutator mutator(n.lowered, kSizes[1]);
  compiler::PlanMemo memo;
  Choices choices{.lmem_bytes = kSizes[1]};
  for (int i = 0; i < 50; ++i) {
    Program with, without;
    ASSERT_EQ(compiler::make_program(n.lowered, n.graph.sources, choices, &memo, with).message(),
              compiler::make_program(n.lowered, n.graph.sources, choices, nullptr, without).message());
    EXPECT_EQ(encoded(with.streams.cores[0].tiu), encoded(without.streams.cores[0].tiu));
    EXPECT_EQ(encoded(with.streams.cores[0].gdma), encoded(without.streams.cores[0].gdma));
    choices = mutator.mutated(choices, compiler::waits_of(with));
  }
}

TEST(Search, FindsFewerCyclesAndIsNeverWorse) {
  for (const OnnxBuilder &b : networks())
    for (int64_t lmem : kSizes) {
      const uint64_t plain = compile(b, {.lmem_bytes = lmem}).stage.cycles;
      uint64_t before = plain;
      for (size_t count : {0, 40, 320}) {
        const Compiled found = compile(b, {.lmem_bytes = lmem, .optimize = until(count)});
        EXPECT_LE(found.stage.cycles, before) << "more candidates, and more cycles";
        EXPECT_EQ(found.report.search.tried, count);
        EXPECT_EQ(found.report.search.plain_cycles, plain);
        EXPECT_EQ(found.report.search.cycles, found.stage.cycles);
        expect_right(b, found.stage, lmem);
        before = found.stage.cycles;
      }
      EXPECT_LT(before, plain);
    }
}

TEST(Search, WithoutCandidatesChangesNothing) {
  for (int64_t lmem : kSizes)
    expect_same_program(compile(branches(), {.lmem_bytes = lmem}).stage,
                        compile(branches(), {.lmem_bytes = lmem, .optimize = until(0)}).stage);
}

TEST(Search, HasNothingToDoWithoutOperators) {
  Program program;
  SearchState state;
  EXPECT_TRUE(compiler::search({}, {}, kLeast, kLeast, until(8), program, state).ok());
  EXPECT_EQ(state.tried, 0u);
}

TEST(Search, TakesTheSameWayEachTime) {
  std::vector<std::vector<uint64_t>> ways(2);
  std::vector<bmodel::StageDesc> found;
  for (auto &way : ways)
    found.push_back(compile(branches(), {.lmem_bytes = kSizes[0],
                                         .optimize =
                                             [&](const SearchState &s) {
                                               way.push_back(s.cycles);
                                               return s.tried < 400;
                                             }})
                        .stage);
  EXPECT_EQ(ways[0], ways[1]);
  EXPECT_GT(ways[0].front(), ways[0].back());
  expect_same_program(found[0], found[1]);
}

/// Parts for the CPU lie between two programs: each is searched and recorded on its own.
TEST(Search, EachProgramOfANetworkHasOne) {
  OnnxBuilder b;
  const auto conv = [&](const std::string &x) { return b.op("Conv", {x, b.weights({32, 32, 3, 3})}); };
  std::string x = conv(conv(b.input({1, 32, 24, 24})));
  x = b.op("CumSum", {x, b.ints({1})});
  b.output(conv(conv(conv(x))));
  const File file;
  size_t begun = 0;
  const auto keep = [&](const SearchState &s) {
    begun += s.tried == 0;
    return s.tried < 80;
  };
  const Compiled found = compile(b, {.lmem_bytes = kLeast, .optimize = keep, .schedule_file = file.path});
  EXPECT_EQ(begun, 2u);
  EXPECT_EQ(found.report.search.programs, 2u);
  EXPECT_EQ(found.report.search.tried, 160u);
  const Compiled known = compile(b, {.lmem_bytes = kLeast, .schedule_file = file.path});
  EXPECT_EQ(known.report.search.recorded, 2u);
  ASSERT_EQ(known.stage.subs.size(), found.stage.subs.size());
  for (size_t i = 0; i < known.stage.subs.size(); ++i) {
    EXPECT_EQ(known.stage.subs[i].tiu, found.stage.subs[i].tiu);
    EXPECT_EQ(known.stage.subs[i].gdma, found.stage.subs[i].gdma);
  }
}

TEST(Report, SaysWhatTheSearchFound) {
  const File file;
  const compiler::Options options{.lmem_bytes = kLeast, .optimize = until(80), .schedule_file = file.path};
  const std::string text = compile(branches(), options).report.text();
  EXPECT_NE(text.find("search         80 schedules tried in "), std::string::npos) << text;
  EXPECT_NE(compile(branches(), {.lmem_bytes = kLeast, .schedule_file = file.path})
                .report.text()
                .find("search         schedules from the file: 1 of 1 programs"),
            std::string::npos);
  EXPECT_EQ(compile(branches(), {.lmem_bytes = kLeast}).report.text().find("search"), std::string::npos);
}

TEST(ScheduleFile, GivesTheProgramThatTheSearchFound) {
  for (const OnnxBuilder &b : networks())
    for (int64_t lmem : kSizes) {
      const File file;
      const Compiled found = compile(b, {.lmem_bytes = lmem, .optimize = until(160), .schedule_file = file.path});
      const Compiled known = compile(b, {.lmem_bytes = lmem, .schedule_file = file.path});
      EXPECT_EQ(known.report.search.recorded, 1u);
      expect_same_program(known.stage, found.stage);
    }
}

/// A search that begins with a record is not worse than that, and writes only what is better.
TEST(ScheduleFile, IsWhatTheNextSearchBeginsWith) {
  const File file;
  compiler::Options options{.lmem_bytes = kLeast, .optimize = until(160), .schedule_file = file.path};
  const uint64_t first = compile(branches(), options).stage.cycles;
  const std::string text = file.read();
  options.optimize = until(0);
  EXPECT_EQ(compile(branches(), options).stage.cycles, first);
  EXPECT_EQ(file.read(), text);
  options.optimize = until(320);
  EXPECT_LE(compile(branches(), options).stage.cycles, first);
}

/// Records of other networks, sizes and versions, and comments, stay; those for another program are not used.
TEST(ScheduleFile, KeepsWhatItDoesNotKnow) {
  const File file;
  const std::string others =
      "# a comment\nv9 something=new and different\n"
      "v1 network=0123456789abcdef lmem=65536 cycles=7 use=65536 block=4096\n";
  file.write(others);
  const auto plain = compile(branches(), {.lmem_bytes = kLeast});
  const auto known = compile(branches(), {.lmem_bytes = kLeast, .schedule_file = file.path});
  EXPECT_EQ(known.report.search.recorded, 0u);
  expect_same_program(known.stage, plain.stage);
  for (int64_t lmem : kSizes)
    compile(branches(), {.lmem_bytes = lmem, .optimize = until(80), .schedule_file = file.path});
  const std::string text = file.read();
  EXPECT_EQ(text.substr(0, others.size()), others);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 5);
}

/// A record whose program has become another one, as with another compiler, is not used, and gives way to one that is
/// right, though it promises fewer cycles.
TEST(ScheduleFile, DoesNotBelieveWrongCycles) {
  const Network n(branches(), kSizes[1]);
  const RecordKey key{compiler::hash_of(n.lowered), kLeast};
  Records records;
  records.add(key, {{.lmem_bytes = kLeast}, 1});
  const File file;
  file.write(records.text());
  const auto known = compile(branches(), {.lmem_bytes = kLeast, .schedule_file = file.path});
  EXPECT_EQ(known.report.search.recorded, 0u);
  expect_same_program(known.stage, compile(branches(), {.lmem_bytes = kLeast}).stage);
  compile(branches(), {.lmem_bytes = kLeast, .optimize = until(80), .schedule_file = file.path});
  EXPECT_EQ(compile(branches(), {.lmem_bytes = kLeast, .schedule_file = file.path}).report.search.recorded, 1u);
}

TEST(ScheduleFile, HasToExistWithoutASearch) {
  Compiled out;
  const auto message = [&](const std::string &path, const compiler::KeepSearching &keep) {
    return try_compile(branches(), {.lmem_bytes = kLeast, .optimize = keep, .schedule_file = path}, out).message();
  };
  EXPECT_NE(message("/nonexistent/file", nullptr).find("cannot open /nonexistent/file: No such file"),
            std::string::npos);
  const auto never = [](const SearchState &) {
    ADD_FAILURE() << "the search begins though its result cannot be kept";
    return false;
  };
  EXPECT_NE(message("/nonexistent/file", never).find("cannot open /nonexistent"), std::string::npos);
  EXPECT_NE(message("/", never).find("/ is no file"), std::string::npos);
}

/// Neither replaced by a file nor waited for.
TEST(ScheduleFile, HasToBeAFile) {
  const File file;
  ASSERT_EQ(mkfifo(file.path.c_str(), 0600), 0);
  for (const auto &keep : {until(8), compiler::KeepSearching()}) {
    Compiled out;
    EXPECT_NE(try_compile(branches(), {.lmem_bytes = kLeast, .optimize = keep, .schedule_file = file.path}, out)
                  .message()
                  .find(file.path + " is no file"),
              std::string::npos);
  }
  EXPECT_TRUE(std::filesystem::is_fifo(file.path));
}

TEST(ScheduleFile, StaysWhatAndWhereItIs) {
  namespace fs = std::filesystem;
  const File file;
  const std::string link = file.path + ".link";
  file.write("# mine\n");
  fs::permissions(file.path, fs::perms{0660});
  fs::remove(link);
  fs::create_symlink(file.path, link);
  compile(branches(), {.lmem_bytes = kLeast, .optimize = until(80), .schedule_file = link});
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(file.read().substr(0, 10), "# mine\nv1 ");
  EXPECT_EQ(fs::status(file.path).permissions(), fs::perms{0660});
  size_t others = 0;
  for (const auto &entry : fs::directory_iterator(fs::path(file.path).parent_path()))
    others += entry.path().string().starts_with(file.path);
  EXPECT_EQ(others, 2u) << "the file and the link, nothing else";
  fs::remove(link);
}

TEST(ScheduleFile, ForReadingOnlyIsNotReplaced) {
  const File file;
  file.write("# mine\n");
  std::filesystem::permissions(file.path, std::filesystem::perms{0444});
  Compiled out;
  const auto never = [](const SearchState &) {
    ADD_FAILURE() << "the search begins though its result cannot be kept";
    return false;
  };
  EXPECT_NE(try_compile(branches(), {.lmem_bytes = kLeast, .optimize = never, .schedule_file = file.path}, out)
                .message()
                .find("it is for reading only"),
            std::string::npos);
  EXPECT_EQ(file.read(), "# mine\n");
}

std::string message_of(const std::string &text) { return Records().parse(text, "file").message(); }

const std::string kGood =
    "v1 network=0123456789abcdef lmem=65536 cycles=1234 use=61440 block=8192 ahead=all,judged,262144,8 "
    "op=3:room=16:block=4096:transfers=128:evictions=2:buffers=above:result=local op=5:result=memory "
    "layer=4:never layer=7:always move=9:2 move=4:3";

TEST(ScheduleFile, TextAndRecordsAreTheSame) {
  Records records;
  ASSERT_EQ(records.parse(kGood + "\n", "file").message(), "");
  EXPECT_EQ(records.text(), kGood + "\n");
  EXPECT_EQ(records.find({0x0123456789abcdef, 65540}), nullptr);
  const Record *r = records.find({0x0123456789abcdef, 65536});
  ASSERT_NE(r, nullptr);
  EXPECT_EQ(r->cycles, 1234u);
  EXPECT_EQ(r->choices.ops.at(3).room, 16);
  EXPECT_EQ(r->choices.prefetch->layers.at(4), compiler::Ahead::Never);
  EXPECT_EQ(r->choices.moves.size(), 2u);
}

TEST(ScheduleFile, TheBestOfSeveralRecordsCounts) {
  const std::string head = "v1 network=0123456789abcdef lmem=65536 cycles=";
  Records records;
  ASSERT_TRUE(records.parse(head + "9 use=65536\n" + head + "7 use=61440\n" + head + "8 use=65536\n", "file").ok());
  EXPECT_EQ(records.text(), head + "7 use=61440\n");
}

TEST(ScheduleFile, DamageIsNamedWithItsLine) {
  ASSERT_EQ(message_of(kGood), "");
  struct Damage {
    const char *from, *to, *says;
  };
  const Damage damages[] = {
      {"v1", "x1", "found 'x1', expected v1"},
      {"v1", "v0", "found 'v0', expected v1"},
      {"v1 network", "v1  network", "found '', expected network="},
      {"network=0", "network=", "expected network=, a hash of 16 hexadecimal digits"},
      {"network=0", "network=g", "expected network=, a hash"},
      {"lmem=65536 ", "", "found 'cycles=1234', expected lmem="},
      {"lmem=65536", "lmem=6553x", "found 'lmem=6553x', expected lmem=, a number of bytes"},
      {"cycles=1234", "cycles=99999999999999999999", "expected cycles=, a number"},
      {"use=61440", "use=69632", "expected use=, a number of bytes, a multiple of 4096 and not more than lmem"},
      {"use=61440", "use=61441", "expected use=, a number of bytes, a multiple of 4096"},
      {"block=8192", "block=8192 block=8192", "expected block=, a number of bytes from 64 on, once"},
      {"block=8192", "block=1", "expected block=, a number of bytes from 64 on"},
      {"all,judged", "all", "expected ahead="},
      {"all,judged", "some,judged", "expected ahead="},
      {"262144", "4097", "expected ahead="},
      {"room=16", "room=65", "expected op="},
      {"room=16", "room=0", "expected op="},
      {":result=local", ":result=here", "expected op="},
      {":result=local", ":", "expected op="},
      {"op=5", "op=3", "found 'op=3:result=memory', expected op="},
      {"layer=7:always", "layer=4:always", "found 'layer=4:always', expected layer="},
      {"ahead=all,judged,262144,8 ", "", "expected layer=, INDEX:never or INDEX:always behind an ahead"},
      {"move=9:2", "move=9", "expected move=, INDEX:INDEX"},
      {"move=4:3", "hop=4:3", "found 'hop=4:3', expected a field of a record"},
      {"move=4:3", "move", "found 'move', expected move="},
  };
  for (const Damage &d : damages) {
    std::string text = kGood;
    const size_t at = text.find(d.from);
    ASSERT_NE(at, std::string::npos) << d.from;
    text.replace(at, std::string(d.from).size(), d.to);
    const std::string message = message_of("# first line\n" + text + "\n");
    EXPECT_EQ(message.substr(0, 8), "file:2: ") << message;
    EXPECT_NE(message.find(d.says), std::string::npos) << message << "\nhas not: " << d.says;
  }
}

/// Truncated and changed text: an error, or records that can be written and read again.
TEST(ScheduleFile, DamagedTextNeverCrashes) {
  uint32_t random = 7;
  size_t refused = 0;
  for (size_t i = 0; i < 5000; ++i) {
    std::string text = kGood.substr(0, i < kGood.size() ? i : kGood.size());
    for (size_t k = 0; k < i % 4 && !text.empty(); ++k) {
      random = random * 1664525u + 1013904223u;
      text[(random >> 8) % text.size()] = static_cast<char>(random >> 24);
    }
    Records records, again;
    if (!records.parse(text, "file").ok()) {
      ++refused;
      continue;
    }
    ASSERT_EQ(again.parse(records.text(), "file").message(), "");
    ASSERT_EQ(again.text(), records.text());
  }
  EXPECT_GT(refused, 1000u);
}

/// The same structure is the same network, whatever its weights are; another shape is another one.
TEST(NetworkHash, IsOfTheStructure) {
  const auto hash = [](int64_t channels, float value) {
    OnnxBuilder b;
    const Dims dims{channels, 2, 3, 3};
    b.output(b.op("Conv", {b.input({1, 2, 9, 9}),
                           b.constant(dims, std::vector<float>(static_cast<size_t>(channels * 18), value))}));
    return compiler::hash_of(Network(b, kSizes[1]).lowered);
  };
  EXPECT_EQ(hash(4, 1), hash(4, 2));
  EXPECT_NE(hash(4, 1), hash(5, 1));
  EXPECT_NE(compiler::hash_of(Network(branches(), kSizes[1]).lowered),
            compiler::hash_of(Network(attention(), kSizes[1]).lowered));
}

}  // namespace
}  // namespace npu::test
