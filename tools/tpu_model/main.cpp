// SPDX-License-Identifier: MIT
// tpu_model: shows, takes apart and puts together .bmodel files.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>

#include "bmruntime_interface.h"
#include "common/command_line.h"
#include "common/standard_output.h"
#include "tools/tpu_model/edit.h"

namespace {

namespace fs = std::filesystem;
using namespace npu::tpu_model;
using npu::Status;
using Words = std::span<const std::string>;

constexpr int kFailed = 1;

/// The exit status of a command.
int exit_status(const Status &status) {
  if (status.ok()) return 0;
  fprintf(stderr, "tpu_model: %s\n", status.message().c_str());
  return kFailed;
}

bool number(const std::string &text, uint64_t &value) {
  const bool hex = text.starts_with("0x");
  const char *end = text.data() + text.size(), *begin = text.data() + (hex ? 2 : 0);
  const auto [rest, error] = std::from_chars(begin, end, value, hex ? 16 : 10);
  return error == std::errc() && rest == end && begin != end;
}

/// Writes beside the place and moves it there, so that nobody sees half a file.
Status write_file(const fs::path &path, std::span<const uint8_t> bytes) {
  const fs::path part = path.string() + ".part";
  std::ofstream out(part, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  out.close();
  std::error_code error;
  if (out) fs::rename(part, path, error);
  if (out && !error) return {};
  const std::string why = error ? error.message() : strerror(errno);
  fs::remove(part, error);
  return Status::error(path.string() + ": cannot write: " + why);
}

Status read_file(const fs::path &path, Bytes &bytes) {
  std::ifstream in(path, std::ios::binary);
  bytes.assign(std::istreambuf_iterator<char>(in), {});
  return in.good() || in.eof() ? Status() : Status::error(path.string() + ": cannot read: " + strerror(errno));
}

Status show(const std::string &path, std::string (*text)(const Container &)) {
  std::unique_ptr<Container> model;
  NPU_TRY(Container::open(path, model));
  fputs(text(*model).c_str(), stdout);
  return {};
}

/// Prints the card memory that a launch of the largest stage needs, with all networks of the file loaded.
Status print_needs(const std::string &path) {
  mem_info_t needs;
  if (!bmrt_get_bmodel_info(path.c_str(), &needs)) return Status::error(bmrt_last_error());
  const uint64_t code = needs.instruction_mem.size, coeff = needs.coeff_mem.size, io = needs.io_mem.size;
  const uint64_t activations = needs.neuron_mem.size;
  printf("==========================================\ncard memory for a launch: %s\n",
         bytes_text(code + coeff + io + activations).c_str());
  printf("  coefficients %s, inputs and outputs %s, activations %s, commands %s\n", bytes_text(coeff).c_str(),
         bytes_text(io).c_str(), bytes_text(activations).c_str(), bytes_text(code).c_str());
  return {};
}

Status info(Words w) {
  NPU_TRY(show(w[0], describe));
  return print_needs(w[0]);
}
Status print(Words w) { return show(w[0], json); }
Status weight(Words w) { return show(w[0], describe_weights); }

/// A line for each layer: its number and the names of the nodes that it was made of.
Status layers(Words w) {
  std::unique_ptr<Container> model;
  NPU_TRY(Container::open(w[0], model));
  NPU_TRY(npu::bmodel::check_chip(*model));
  for (const auto *net : *model->model().net())
    for (flatbuffers::uoffset_t stage = 0; stage < net->parameter()->size(); stage++) {
      npu::bmodel::Program program;
      NPU_TRY(read_program(*model, *net, *net->parameter()->Get(stage), program));
      printf("net [%s] stage %u:\n", net->name()->c_str(), stage);
      for (size_t i = 0; i < program.layers.size(); i++)
        printf("%6zu  %.*s\n", i, static_cast<int>(program.layers[i].size()), program.layers[i].data());
    }
  return {};
}

Status update_weight(Words w) {
  Weights to{w[1], 0}, from{w[4], 0};
  Bytes bytes;
  if (!number(w[2], to.offset) || !number(w[5], from.offset))
    return Status::error("--update_weight: the offsets '" + w[2] + "' and '" + w[5] +
                         "': numbers of bytes are expected, as 64 or 0x40");
  std::unique_ptr<Container> source;
  NPU_TRY(Container::open(w[3], source));
  NPU_TRY(read_file(w[0], bytes));
  NPU_TRY(update_weights(bytes, to, *source, from));
  return write_file(w[0], bytes);
}

/// A network's name as a file name.
std::string file_name(std::string net) {
  for (char &c : net)
    if (c == '/' || c == '\0') c = '_';
  return (net == "." || net == ".." ? "_" : net) + ".bmodel";
}

Status extract_all(Words w, const std::string &out) {
  std::unique_ptr<Container> model;
  NPU_TRY(Container::open(w[0], model));
  const fs::path folder = out.empty() ? "." : out;
  std::error_code error;
  fs::create_directories(folder, error);
  for (size_t i = 0; i < model->model().net()->size(); i++) {
    const std::string name = model->model().net()->Get(static_cast<flatbuffers::uoffset_t>(i))->name()->str();
    const fs::path path = folder / file_name(name);
    Bytes bytes;
    NPU_TRY(extract(*model, i, bytes));
    NPU_TRY(write_file(path, bytes));
    printf("%s\n", path.c_str());
  }
  return {};
}

Status combine_files(Words paths, const std::string &out) {
  std::vector<std::unique_ptr<Container>> models;
  std::vector<const Container *> all;
  for (const std::string &path : paths) {
    NPU_TRY(Container::open(path, models.emplace_back()));
    all.push_back(models.back().get());
  }
  Bytes bytes;
  NPU_TRY(combine(all, bytes));
  return write_file(out, bytes);
}

Status combine_dirs(Words dirs, const std::string &folder) {
  const fs::path out = folder;
  std::vector<std::string> models;
  std::error_code error;
  fs::create_directories(out, error);
  for (const std::string &dir : dirs) models.push_back(fs::path(dir) / "compilation.bmodel");
  NPU_TRY(combine_files(models, (out / "compilation.bmodel").string()));
  for (const char *name : {"input_ref_data.dat", "output_ref_data.dat"}) {
    Bytes all, part;
    for (const std::string &dir : dirs) {
      NPU_TRY(read_file(fs::path(dir) / name, part));
      all.insert(all.end(), part.begin(), part.end());
    }
    NPU_TRY(write_file(out / name, all));
  }
  return {};
}

Status dump(Words w) {
  uint64_t start, size;
  if (!number(w[1], start) || !number(w[2], size))
    return Status::error("--dump: START '" + w[1] + "' and BYTES '" + w[2] +
                         "': numbers of bytes are expected, as 64 or 0x40");
  std::unique_ptr<Container> model;
  NPU_TRY(Container::open(w[0], model));
  const auto blob = model->blob();
  if (start > blob.size() || size > blob.size() - start)
    return Status::error(model->name() + ": " + std::to_string(size) + " bytes at " + std::to_string(start) +
                         " lie beyond the " + std::to_string(blob.size()) + " bytes of binary data");
  return write_file(w[3], blob.subspan(start, size));
}

/// One command: its operands, and the function that carries it out. The function gets the path of -o, which may be
/// empty.
struct Command {
  const char *name, *operands;
  size_t least, most;
  bool output;  ///< needs -o
  const char *help;
  Status (*run)(Words words, const std::string &out);
};

template <Status (*function)(Words)>
Status without_output(Words w, const std::string &) {
  return function(w);
}

constexpr Command kCommands[] = {
    {"--info", "FILE", 1, 1, false, "networks, stages, tensors, sizes", without_output<info>},
    {"--print", "FILE", 1, 1, false, "everything, as JSON", without_output<print>},
    {"--weight", "FILE", 1, 1, false, "positions of the weights", without_output<weight>},
    {"--layers", "FILE", 1, 1, false, "the nodes behind the numbers in profiles and cache reports",
     without_output<layers>},
    {"--update_weight", "FILE NET OFFSET SOURCE NET OFFSET", 6, 6, false,
     "replaces weights in FILE by those of another model", without_output<update_weight>},
    {"--extract", "FILE [-o DIR]", 1, 1, false, "a file NET.bmodel for each network", extract_all},
    {"--combine", "FILE... -o NEW", 1, SIZE_MAX, true, "one file; networks of the same name become stages of one",
     combine_files},
    {"--combine_dir", "DIR... -o NEW", 1, SIZE_MAX, true,
     "the same with compilation.bmodel, input_ref_data.dat, output_ref_data.dat", combine_dirs},
    {"--dump", "FILE START BYTES OUT", 4, 4, false, "a part of the binary data", without_output<dump>},
};

/// Returns what is wrong with the operands of a command; empty: nothing.
std::string check(const Command &c, size_t words, const std::string &out) {
  const std::string expected = std::string(c.name) + ": expected " + c.operands;
  if (words < c.least || words > c.most) return expected + ", and " + std::to_string(words) + " operands are given";
  if (c.output && out.empty()) return expected + ", and -o is missing";
  if (!out.empty() && !c.output && !std::strstr(c.operands, "-o")) return expected + ", without -o";
  return "";
}

int run(int argc, char **argv) {
  std::vector<std::string> words;
  std::string out;
  std::array<bool, std::size(kCommands)> chosen{};
  npu::CommandLine line("tpu_model", NPU_VERSION, "COMMAND OPERAND...",
                        "Shows .bmodel files, takes them apart and puts them together.");
  for (size_t i = 0; i < chosen.size(); ++i)
    line.flag(kCommands[i].name, chosen[i], kCommands[i].help).operands(kCommands[i].operands);
  line.text("-o", "PATH", out, "file or folder to write");
  line.operands("OPERAND", SIZE_MAX, words, "");
  line.epilog("Exit status: 0, 1 when something could not be done, 2 for a wrong command line.\n");
  if (const auto status = line.parse(argc, argv)) return *status;
  const auto commands = std::count(chosen.begin(), chosen.end(), true);
  if (commands != 1)
    return line.refuse("one command is expected, as --info FILE, and " + std::to_string(commands) + " are given");
  const Command &command = kCommands[std::find(chosen.begin(), chosen.end(), true) - chosen.begin()];
  if (const std::string wrong = check(command, words.size(), out); !wrong.empty()) return line.refuse(wrong);
  return exit_status(command.run(words, out));
}

}  // namespace

int main(int argc, char **argv) try {
  return npu::written(run(argc, argv), "tpu_model");
} catch (const std::exception &e) {
  fprintf(stderr, "tpu_model: %s\n", e.what());
  return kFailed;
}
