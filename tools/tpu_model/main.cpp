// SPDX-License-Identifier: MIT
// tpu_model: shows, takes apart and puts together .bmodel files.
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>

#include "bmruntime_interface.h"
#include "common/standard_output.h"
#include "tools/tpu_model/edit.h"

namespace {

namespace fs = std::filesystem;
using namespace npu::tpu_model;
using npu::Status;
using Words = std::span<char *const>;

constexpr int kFailed = 1, kUsage = 2;

const char kHelp[] =
    "usage:\n"
    "  tpu_model --info FILE                   networks, stages, tensors, sizes\n"
    "  tpu_model --print FILE                  everything, as JSON\n"
    "  tpu_model --weight FILE                 where the weights are\n"
    "  tpu_model --layers FILE                 the nodes behind the numbers in profiles and cache reports\n"
    "  tpu_model --update_weight FILE NET OFFSET SOURCE NET OFFSET\n"
    "                                          replaces weights in FILE by those of another model\n"
    "  tpu_model --extract FILE [-o DIR]       a file NET.bmodel for each network\n"
    "  tpu_model --combine FILE... -o NEW      one file; networks of the same name become stages of one\n"
    "  tpu_model --combine_dir DIR... -o NEW   the same with compilation.bmodel, input_ref_data.dat, "
    "output_ref_data.dat\n"
    "  tpu_model --dump FILE START BYTES OUT   a part of the binary data\n"
    "  tpu_model --version\n"
    "Exit status: 0, 1 when something could not be done, 2 for a wrong command line.\n";

/// The exit status of a command.
int exit_status(const Status &status) {
  if (status.ok()) return 0;
  fprintf(stderr, "tpu_model: %s\n", status.message().c_str());
  return kFailed;
}

bool number(const char *text, uint64_t &value) {
  const bool hex = !strncmp(text, "0x", 2);
  const char *end = text + strlen(text), *begin = text + (hex ? 2 : 0);
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

Status show(const char *path, std::string (*text)(const Container &)) {
  std::unique_ptr<Container> model;
  NPU_TRY(Container::open(path, model));
  fputs(text(*model).c_str(), stdout);
  return {};
}

/// Prints the card memory that a launch of the largest stage needs, with all networks of the file loaded.
Status print_needs(const char *path) {
  mem_info_t needs;
  if (!bmrt_get_bmodel_info(path, &needs)) return Status::error(bmrt_last_error());
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
    return Status::error("--update_weight: an offset is not a number");
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

Status extract_all(Words w, const char *out) {
  std::unique_ptr<Container> model;
  NPU_TRY(Container::open(w[0], model));
  const fs::path folder = out ? out : ".";
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

Status combine_files(const std::vector<std::string> &paths, const fs::path &out) {
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

Status combine_dirs(Words dirs, const fs::path &out) {
  std::vector<std::string> models;
  std::error_code error;
  fs::create_directories(out, error);
  for (char *dir : dirs) models.push_back(fs::path(dir) / "compilation.bmodel");
  NPU_TRY(combine_files(models, out / "compilation.bmodel"));
  for (const char *name : {"input_ref_data.dat", "output_ref_data.dat"}) {
    Bytes all, part;
    for (char *dir : dirs) {
      NPU_TRY(read_file(fs::path(dir) / name, part));
      all.insert(all.end(), part.begin(), part.end());
    }
    NPU_TRY(write_file(out / name, all));
  }
  return {};
}

Status dump(Words w) {
  uint64_t start, size;
  if (!number(w[1], start) || !number(w[2], size)) return Status::error("--dump: start and size are numbers of bytes");
  std::unique_ptr<Container> model;
  NPU_TRY(Container::open(w[0], model));
  const auto blob = model->blob();
  if (start > blob.size() || size > blob.size() - start)
    return Status::error(model->name() + ": " + std::to_string(size) + " bytes at " + std::to_string(start) +
                         " lie beyond the " + std::to_string(blob.size()) + " bytes of binary data");
  return write_file(w[3], blob.subspan(start, size));
}

int usage() {
  fputs(kHelp, stderr);
  return kUsage;
}

int run(int argc, char **argv) {
  std::vector<char *> words;
  const char *out = nullptr;
  for (int i = 2; i < argc; i++) {
    if (!strcmp(argv[i], "-o") && i + 1 < argc)
      out = argv[++i];
    else
      words.push_back(argv[i]);
  }
  const std::string command = argc > 1 ? argv[1] : "";
  const size_t count = words.size();
  if (command == "--version") return puts("tpu_model " NPU_VERSION), 0;
  if (command == "--help") return fputs(kHelp, stdout), 0;
  if (command == "--info" && count == 1) return exit_status(info(words));
  if (command == "--print" && count == 1) return exit_status(print(words));
  if (command == "--weight" && count == 1) return exit_status(weight(words));
  if (command == "--layers" && count == 1) return exit_status(layers(words));
  if (command == "--update_weight" && count == 6) return exit_status(update_weight(words));
  if (command == "--extract" && count == 1) return exit_status(extract_all(words, out));
  if (command == "--combine" && count && out) return exit_status(combine_files({words.begin(), words.end()}, out));
  if (command == "--combine_dir" && count && out) return exit_status(combine_dirs(words, out));
  if (command == "--dump" && count == 4) return exit_status(dump(words));
  return usage();
}

}  // namespace

int main(int argc, char **argv) { return npu::written(run(argc, argv), "tpu_model"); }
