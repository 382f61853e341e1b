// SPDX-License-Identifier: MIT
#include "tools/npuc/verify_onnxruntime.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string_view>

#include "common/command_line.h"
#include "compiler/import/external_files.h"
#include "tools/npuc/verify_runtime.h"

namespace npu::npuc {
namespace {

namespace fs = std::filesystem;

/// A folder that goes with its object.
class Folder {
 public:
  Folder() {
    std::error_code failed;
    std::string path = (fs::temp_directory_path(failed) / "npuc-XXXXXX").string();
    if (mkdtemp(path.data())) path_ = path;
  }
  ~Folder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  Folder(const Folder &) = delete;
  Folder &operator=(const Folder &) = delete;
  std::string operator/(const char *name) const { return path_ + "/" + name; }
  bool ok() const { return !path_.empty(); }

 private:
  std::string path_;
};

/// Length of the sequence for terminals that a text begins with: ESC [, parameters, a letter. 0: it begins with none.
size_t control_length(std::string_view text) {
  if (!text.starts_with("\x1b[")) return 0;
  const size_t end = text.find_first_not_of("0123456789;?", 2);
  if (end == text.npos) return 0;
  const char last = text[end];
  return (last >= 'A' && last <= 'Z') || (last >= 'a' && last <= 'z') ? end + 1 : 0;
}

/// Text without the sequences that control terminals.
std::string plain(const std::string &text) {
  std::string rest, out;
  for (size_t i = 0; i < text.size();) {
    const size_t control = control_length(std::string_view(text).substr(i));
    if (control == 0) rest += text[i];
    i += control == 0 ? 1 : control;
  }
  std::istringstream lines(rest);
  for (std::string line; std::getline(lines, line);) out += (out.empty() ? "" : "\n") + printable(line);
  return out;
}

/// The last lines of a file of messages.
std::string tail(const std::string &path) {
  constexpr size_t kMost = 600;
  std::ifstream file(path);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return plain(text.size() <= kMost ? text : "..." + text.substr(text.size() - kMost));
}

/// A file under another name; a copy where that cannot be.
Status link_or_copy(const fs::path &from, const fs::path &to) {
  std::error_code failed;
  fs::create_directories(to.parent_path(), failed);
  if (!failed) fs::create_hard_link(from, to, failed);
  if (failed) fs::copy_file(from, to, failed);
  return failed ? Status::error("cannot copy " + printable(from.string()) + " to " + printable(to.string()) + ": " +
                                failed.message())
                : Status();
}

/// A path of the model from which ONNX Runtime finds external data. It takes no data behind links that lead out of the
/// model's folder: then model and data are put together in `folder`.
Status plain_model(const std::string &model, const std::string &folder, std::string &out) {
  std::map<std::string, std::string> files;
  NPU_TRY(graph::external_files(model, files));
  std::error_code failed;
  const fs::path real = fs::canonical(model, failed);
  if (failed) return Status::error(model + ": " + failed.message());
  out = real.string();
  if (std::ranges::all_of(files, [&](const auto &file) {
        return (real.parent_path() / file.first).lexically_normal() == fs::path(file.second);
      }))
    return {};
  // The name that the file has beside its data, so none of them has it.
  out = folder + "/" + fs::path(model).filename().string();
  NPU_TRY(link_or_copy(real, out));
  for (const auto &[location, path] : files) {
    const fs::path to = (fs::path(folder) / location).lexically_normal();
    if (fs::path(location).is_absolute() || *to.lexically_relative(folder).begin() == "..")
      return Status::error("external data: '" + printable(location) + "' is no path below the model's folder");
    NPU_TRY(link_or_copy(path, to));
  }
  return {};
}

/// Runs a program to its end; standard output and standard error go to `log`.
Status run_program(const std::vector<std::string> &words, const std::string &log) {
  std::vector<char *> argv;
  for (const std::string &w : words) argv.push_back(const_cast<char *>(w.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t child = -1;
  const int error = posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error) return Status::error("cannot start " + words[0] + ": " + std::strerror(error));
  int state = 0;
  while (waitpid(child, &state, 0) < 0)
    if (errno != EINTR) return Status::error("cannot wait for " + words[0] + ": " + std::strerror(errno));
  if (WIFSIGNALED(state))
    return Status::error("ONNX Runtime ended by signal " + std::to_string(WTERMSIG(state)) + " (" +
                         strsignal(WTERMSIG(state)) + ")" + (tail(log).empty() ? "" : ": " + tail(log)));
  if (WEXITSTATUS(state) == 0) return {};
  const std::string why = tail(log);
  return Status::error("ONNX Runtime failed: " + (why.empty() ? "status " + std::to_string(WEXITSTATUS(state)) : why));
}

}  // namespace

std::string onnxruntime_program() {
  const char *const named = std::getenv("NPUC_ONNXRUNTIME");
  if (named && *named) return named;
  return beside_libraries("npuc-onnxruntime");
}

Status run_onnxruntime(const std::string &program, const std::string &model, const std::vector<NamedTensor> &inputs,
                       const std::vector<std::string> &wanted, std::vector<NamedTensor> &outputs,
                       std::string &version) {
  const Folder folder;
  if (!folder.ok()) return Status::error("cannot make a temporary folder: " + std::string(std::strerror(errno)));
  NPU_TRY(write_tensors(folder / "inputs", inputs));
  std::ofstream names(folder / "names");
  for (const std::string &name : wanted) names << name << '\n';
  names.close();
  std::string path;
  NPU_TRY(plain_model(model, folder / "model", path));
  NPU_TRY(run_program({program, path, folder / "inputs", folder / "names", folder / "outputs", folder / "version"},
                      folder / "log"));
  NPU_TRY(read_tensors(folder / "outputs", outputs));
  std::ifstream(folder / "version") >> version;
  return {};
}

}  // namespace npu::npuc
