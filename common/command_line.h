// SPDX-License-Identifier: MIT
// The command line of a tool: a list of options from which parsing, messages and --help are generated.
//
// All tools take `--name VALUE` and `--name=VALUE`, `-n VALUE` and `-nVALUE`, `--` in front of operands that begin with
// a dash, -h, --help and --version. A message begins with the program's name, quotes the word as it was typed, and
// names the expected form. The status of a wrong command line is 2. Needs nothing but the standard library.
#ifndef NPU_COMMON_COMMAND_LINE_H
#define NPU_COMMON_COMMAND_LINE_H

#include <concepts>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace npu {

/// The exit status of a wrong command line.
inline constexpr int kUsageStatus = 2;

/// One option. References to it stay valid as long as the command line.
class Option {
 public:
  /// The option makes sense beside `other` only.
  Option &needs(const Option &other);
  /// The option and `other` do not go together.
  Option &excludes(const Option &other);
  /// Default value, for the help.
  Option &shows(std::string value);
  /// Operands that a flag stands in front of, for the help.
  Option &operands(std::string names);
  /// Further condition on the value: returns the expected form, or an empty text if the value has it.
  Option &check(std::function<std::string(const std::string &)> condition);

  bool given() const { return count_ > 0; }

 private:
  friend class CommandLine;

  const std::string &name() const { return names_.back(); }
  std::string relations() const;

  std::vector<std::string> names_;  ///< short one first; a command word has no dash
  std::string value_name_;          ///< empty: the option takes no value
  std::string help_, heading_, default_, operands_;
  std::function<std::string(const std::string &)> take_;  ///< returns the expected form, or an empty text
  std::vector<std::function<std::string(const std::string &)>> conditions_;
  std::vector<const Option *> needs_, excludes_;
  bool repeated_ = false;
  size_t count_ = 0;
};

class CommandLine {
 public:
  /// `usage`: operands and options behind the program's name; one line each.
  CommandLine(std::string program, std::string version, std::string usage, std::string purpose);

  /// `names`: "-q,--quiet", or a command word: "live".
  Option &flag(const std::string &names, bool &out, std::string help);
  /// `value_name`: "FILE". The value is not empty.
  Option &text(const std::string &names, std::string value_name, std::string &out, std::string help);
  /// May be repeated.
  Option &texts(const std::string &names, std::string value_name, std::vector<std::string> &out, std::string help);
  Option &choice(const std::string &names, std::vector<std::string> words, std::string &out, std::string help);
  Option &real(const std::string &names, std::string value_name, double &out, double low, double high,
               std::string help);
  /// Whole numbers with commas between them.
  Option &list(const std::string &names, std::string value_name, std::vector<int> &out, int64_t low, int64_t high,
               std::string help);
  template <std::integral T>
  Option &number(const std::string &names, std::string value_name, T &out, int64_t low, int64_t high,
                 std::string help) {
    return whole(names, std::move(value_name), low, high, std::move(help),
                 [&out](int64_t v) { out = static_cast<T>(v); });
  }
  /// A value that `take` reads: it returns the expected form, or an empty text if the value has it.
  Option &value(const std::string &names, std::string value_name, std::function<std::string(const std::string &)> take,
                std::string help);

  /// An operand that is needed. Operands have no dash.
  void operand(std::string name, std::string &out, std::string help);
  /// At most `most` operands.
  void operands(std::string name, size_t most, std::vector<std::string> &out, std::string help);

  /// Options that are added later stand below this title.
  void heading(std::string title) { heading_ = std::move(title); }
  /// Text behind the options.
  void epilog(std::string text) { epilog_ = std::move(text); }

  /// The exit status if the program is to end: after --help, --version or a wrong command line, which has been printed.
  std::optional<int> parse(int argc, const char *const *argv);
  /// Prints the message with the program's name and a reference to --help; returns kUsageStatus.
  int refuse(const std::string &message) const;
  std::string help() const;

 private:
  struct Words;

  Option &add(const std::string &names, std::string value_name, std::string help);
  Option &whole(const std::string &names, std::string value_name, int64_t low, int64_t high, std::string help,
                std::function<void(int64_t)> set);
  Option *find(std::string_view name);
  std::string take_option(const std::string &word, Words &rest);
  std::string take_value(Option &option, const std::string &typed, const std::string &value);
  std::string take_operand(const std::string &word);
  std::string unknown(const std::string &word) const;
  std::string nearest(const std::string &word) const;
  std::string check_together() const;

  std::string program_, version_, usage_, purpose_, heading_, epilog_;
  std::deque<Option> options_;
  std::string operand_name_, operand_help_;
  std::vector<std::string> *operands_ = nullptr;
  std::string *operand_ = nullptr;
  size_t most_operands_ = 0, operand_count_ = 0;
  bool help_wanted_ = false, version_wanted_ = false;
};

/// Text for a message: control characters as \xNN.
std::string printable(std::string_view text);

}  // namespace npu

#endif  // NPU_COMMON_COMMAND_LINE_H
