// SPDX-License-Identifier: MIT
#include "common/command_line.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "common/nearest.h"

namespace npu {
namespace {

constexpr size_t kColumn = 28;   ///< column of the meanings in the help
constexpr size_t kWidth = 100;   ///< columns of the help
constexpr size_t kLongest = 64;  ///< letters of a word that suggestions are searched for

std::vector<std::string> split(const std::string &text, char separator) {
  std::vector<std::string> out;
  for (size_t from = 0;;) {
    const size_t end = text.find(separator, from);
    out.push_back(text.substr(from, end - from));
    if (end == text.npos) return out;
    from = end + 1;
  }
}

bool parse_whole(std::string_view text, int64_t &out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

/// An option's name without dashes, in small letters, with '-' for '_'.
std::string plain(std::string_view name) {
  name.remove_prefix(std::min(name.find_first_not_of('-'), name.size()));
  std::string out(name);
  for (char &c : out) c = c == '_' ? '-' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

std::string number_text(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.12g", v);
  return text;
}

std::string range_text(const char *kind, const std::string &low, const std::string &high) {
  return std::string(kind) + " from " + low + " to " + high;
}

/// Appends words with line breaks, all lines but the first one indented.
void wrap(const std::string &text, size_t indent, std::string &out) {
  size_t column = indent;
  for (const std::string &word : split(text, ' ')) {
    if (column > indent && column + 1 + word.size() > kWidth) {
      out += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  out += '\n';
}

void row(const std::string &left, const std::string &meaning, std::string &out) {
  out += "  " + left;
  if (left.size() + 4 > kColumn)
    out += '\n' + std::string(kColumn, ' ');
  else
    out += std::string(kColumn - left.size() - 2, ' ');
  wrap(meaning, kColumn, out);
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    char hex[8];
    std::snprintf(hex, sizeof hex, "\\x%02x", byte);
    out += byte < 32 || byte == 127 ? std::string(hex) : std::string(1, c);
  }
  return out;
}

Option &Option::needs(const Option &other) {
  needs_.push_back(&other);
  return *this;
}

Option &Option::excludes(const Option &other) {
  excludes_.push_back(&other);
  return *this;
}

Option &Option::shows(std::string value) {
  default_ = std::move(value);
  return *this;
}

Option &Option::operands(std::string names) {
  operands_ = std::move(names);
  return *this;
}

Option &Option::check(std::function<std::string(const std::string &)> condition) {
  conditions_.push_back(std::move(condition));
  return *this;
}

/// The options that this one needs or excludes, and the default, for the help.
std::string Option::relations() const {
  const auto joined = [](const char *what, const std::vector<const Option *> &list) {
    std::string out;
    for (const Option *o : list) out += (out.empty() ? std::string("; ") + what + " " : ", ") + o->name();
    return out;
  };
  return joined("only with", needs_) + joined("not with", excludes_) +
         (default_.empty() ? "" : "; default " + default_);
}

CommandLine::CommandLine(std::string program, std::string version, std::string usage, std::string purpose)
    : program_(std::move(program)),
      version_(std::move(version)),
      usage_(std::move(usage)),
      purpose_(std::move(purpose)) {}

Option &CommandLine::add(const std::string &names, std::string value_name, std::string help) {
  Option &option = options_.emplace_back();
  option.names_ = split(names, ',');
  option.value_name_ = std::move(value_name);
  option.help_ = std::move(help);
  option.heading_ = heading_;
  return option;
}

Option &CommandLine::flag(const std::string &names, bool &out, std::string help) {
  Option &option = add(names, "", std::move(help));
  option.repeated_ = true;
  option.take_ = [&out](const std::string &) {
    out = true;
    return std::string();
  };
  return option;
}

Option &CommandLine::value(const std::string &names, std::string value_name,
                           std::function<std::string(const std::string &)> take, std::string help) {
  Option &option = add(names, std::move(value_name), std::move(help));
  option.take_ = std::move(take);
  return option;
}

Option &CommandLine::text(const std::string &names, std::string value_name, std::string &out, std::string help) {
  const auto take = [&out, value_name](const std::string &value) {
    out = value;
    return value.empty() ? value_name : "";
  };
  return value(names, value_name, take, std::move(help));
}

Option &CommandLine::texts(const std::string &names, std::string value_name, std::vector<std::string> &out,
                           std::string help) {
  const auto take = [&out, value_name](const std::string &value) {
    out.push_back(value);
    return value.empty() ? value_name : "";
  };
  Option &option = value(names, value_name, take, std::move(help) + "; may be repeated");
  option.repeated_ = true;
  return option;
}

Option &CommandLine::choice(const std::string &names, std::vector<std::string> words, std::string &out,
                            std::string help) {
  std::string shown;
  for (const std::string &word : words) shown += (shown.empty() ? "" : "|") + word;
  const auto take = [&out, words = std::move(words)](const std::string &value) {
    out = value;
    if (std::find(words.begin(), words.end(), value) != words.end()) return std::string();
    std::string expected;
    for (const std::string &word : words)
      expected += (expected.empty() ? "" : &word == &words.back() ? " or " : ", ") + word;
    return expected;
  };
  return value(names, shown, take, std::move(help));
}

Option &CommandLine::whole(const std::string &names, std::string value_name, int64_t low, int64_t high,
                           std::string help, std::function<void(int64_t)> set) {
  const auto take = [=, set = std::move(set)](const std::string &value) {
    int64_t number = 0;
    if (!parse_whole(value, number) || number < low || number > high)
      return range_text("a whole number", std::to_string(low), std::to_string(high));
    set(number);
    return std::string();
  };
  return value(names, std::move(value_name), take, std::move(help));
}

Option &CommandLine::real(const std::string &names, std::string value_name, double &out, double low, double high,
                          std::string help) {
  const auto take = [=, &out](const std::string &value) {
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), out);
    const bool number = error == std::errc() && end == value.data() + value.size() && !value.empty();
    return number && out >= low && out <= high ? "" : range_text("a number", number_text(low), number_text(high));
  };
  return value(names, std::move(value_name), take, std::move(help));
}

Option &CommandLine::list(const std::string &names, std::string value_name, std::vector<int> &out, int64_t low,
                          int64_t high, std::string help) {
  const auto take = [=, &out](const std::string &value) {
    for (const std::string &part : split(value, ',')) {
      int64_t number = 0;
      if (!parse_whole(part, number) || number < low || number > high)
        return range_text("whole numbers", std::to_string(low), std::to_string(high)) + " with commas between them";
      out.push_back(static_cast<int>(number));
    }
    return std::string();
  };
  return value(names, std::move(value_name), take, std::move(help));
}

void CommandLine::operand(std::string name, std::string &out, std::string help) {
  operand_name_ = std::move(name);
  operand_help_ = std::move(help);
  operand_ = &out;
  most_operands_ = 1;
}

void CommandLine::operands(std::string name, size_t most, std::vector<std::string> &out, std::string help) {
  operand_name_ = std::move(name);
  operand_help_ = std::move(help);
  operands_ = &out;
  most_operands_ = most;
}

int CommandLine::refuse(const std::string &message) const {
  std::fprintf(stderr, "%s: %s; see %s --help\n", program_.c_str(), printable(message).c_str(), program_.c_str());
  return kUsageStatus;
}

std::string CommandLine::help() const {
  std::string out;
  for (const std::string &line : split(usage_, '\n'))
    out += (out.empty() ? "usage: " : "       ") + program_ + (line.empty() ? "" : " " + line) + "\n";
  wrap(purpose_, 0, out);
  out += '\n';
  if (!operand_help_.empty()) row(operand_name_, operand_help_, out);
  std::string title;
  for (const Option &o : options_) {
    if (o.heading_ != title) out += "\n" + o.heading_ + ":\n";
    title = o.heading_;
    std::string names;
    for (const std::string &name : o.names_) names += (names.empty() ? "" : ", ") + name;
    const std::string &behind = o.value_name_.empty() ? o.operands_ : o.value_name_;
    row(names + (behind.empty() ? "" : " " + behind), o.help_ + o.relations(), out);
  }
  if (!title.empty()) out += '\n';
  row("--version", "version of this program", out);
  row("-h, --help", "this text", out);
  return out + (epilog_.empty() ? "" : "\n" + epilog_);
}

/// The words that have not been read.
struct CommandLine::Words {
  const char *const *next, *const *end;
};

Option *CommandLine::find(std::string_view name) {
  for (Option &o : options_)
    if (std::find(o.names_.begin(), o.names_.end(), name) != o.names_.end()) return &o;
  return nullptr;
}

/// The option or command word whose name is nearest; empty: none is near.
std::string CommandLine::nearest(const std::string &word) const {
  const std::string wanted = plain(word.substr(0, word.find('=')));
  std::string best;
  size_t least = SIZE_MAX;
  if (wanted.empty() || wanted.size() > kLongest) return best;
  const auto look = [&](const std::string &name) {
    const std::string known = plain(name);
    const bool begun = wanted.size() >= 3 && known.starts_with(wanted);
    const size_t distance = begun ? std::min<size_t>(known.size() - wanted.size(), 1) : edit_distance(wanted, known);
    if (distance > std::min(wanted.size(), known.size()) / 3 || distance >= least) return;
    least = distance;
    best = name;
  };
  for (const Option &o : options_)
    for (const std::string &name : o.names_) look(name);
  for (const char *name : {"-h", "--help", "--version"}) look(name);
  return best;
}

std::string CommandLine::unknown(const std::string &word) const {
  const std::string near = nearest(word);
  const bool option = word[0] == '-';
  std::string out = printable(word) + (option           ? ": unknown option"
                                       : most_operands_ ? ": unexpected operand"
                                       : near.empty()   ? ": unexpected argument"
                                                        : ": unknown command");
  if (!near.empty() && (option || !most_operands_)) return out + "; is " + near + " meant?";
  if (!option && most_operands_) out += ", one " + operand_name_ + " is expected";
  return out;
}

std::string CommandLine::take_value(Option &option, const std::string &typed, const std::string &value) {
  if (option.count_++ && !option.repeated_) return typed + ": the option is given twice";
  std::string expected = option.take_(value);
  for (const auto &condition : option.conditions_)
    if (expected.empty()) expected = condition(value);
  if (expected.empty()) return "";
  return typed + (value.empty() ? " is empty" : " " + printable(value)) + ": expected " + expected;
}

/// Reads one option, and its value where that is the next word. Returns the error.
std::string CommandLine::take_option(const std::string &word, Words &rest) {
  if (word == "-h" || word == "--help") return help_wanted_ = true, "";
  if (word == "--version") return version_wanted_ = true, "";
  const size_t equals = word.find('=');
  Option *option = find(word);
  if (option && option->value_name_.empty()) {
    ++option->count_;
    return option->take_("");
  }
  if (option) {
    if (rest.next == rest.end) return word + ": a value is expected, " + option->value_name_;
    const std::string value = *rest.next++;
    if (value[0] == '-' && (find(value) || value == "-h" || value == "--help"))
      return word + ": a value is expected, " + option->value_name_ + ", and the option " + value + " follows";
    return take_value(*option, word, value);
  }
  if (word.starts_with("--") && equals != word.npos) {
    const std::string name = word.substr(0, equals);
    option = find(name);
    if (!option) return unknown(word);
    if (option->value_name_.empty()) return printable(word) + ": " + name + " takes no value";
    return take_value(*option, name, word.substr(equals + 1));
  }
  if (!word.starts_with("--") && word.size() > 2) {
    option = find(word.substr(0, 2));
    if (option && !option->value_name_.empty() && (word[2] == '=' || nearest(word).empty()))
      return take_value(*option, word.substr(0, 2), word.substr(word[2] == '=' ? 3 : 2));
  }
  return unknown(word);
}

std::string CommandLine::take_operand(const std::string &word) {
  if (Option *command = find(word); command && word[0] != '-') {
    ++command->count_;
    return command->take_("");
  }
  if (operand_count_ >= most_operands_) return unknown(word.empty() ? "''" : word);
  if (word.empty()) return operand_name_ + " is empty";
  ++operand_count_;
  if (operand_) *operand_ = word;
  if (operands_) operands_->push_back(word);
  return "";
}

/// Returns what is missing beside an option, or does not go with it.
std::string CommandLine::check_together() const {
  for (const Option &o : options_) {
    if (!o.given()) continue;
    for (const Option *other : o.needs_)
      if (!other->given()) return o.name() + " needs " + other->name();
    for (const Option *other : o.excludes_)
      if (other->given()) return o.name() + " does not go with " + other->name();
  }
  return "";
}

std::optional<int> CommandLine::parse(int argc, const char *const *argv) {
  std::string wrong;  // the first error; --help behind it is still found
  Words rest{argv + std::min(argc, 1), argv + argc};
  bool options = true;
  while (rest.next != rest.end) {
    const std::string word = *rest.next++;
    std::string error;
    if (options && word == "--")
      options = false;
    else if (options && word.size() > 1 && word[0] == '-')
      error = take_option(word, rest);
    else
      error = take_operand(word);
    if (wrong.empty()) wrong = error;
  }
  if (help_wanted_ || version_wanted_) {
    const std::string text = help_wanted_ ? help() : program_ + " " + version_ + "\n";
    std::fputs(text.c_str(), stdout);
    return 0;
  }
  if (wrong.empty()) wrong = check_together();
  if (wrong.empty() && operand_ && operand_count_ == 0) wrong = "a " + operand_name_ + " is expected";
  return wrong.empty() ? std::nullopt : std::optional<int>(refuse(wrong));
}

}  // namespace npu
