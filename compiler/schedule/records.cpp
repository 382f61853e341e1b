// SPDX-License-Identifier: MIT
#include "compiler/schedule/records.h"

#include <algorithm>
#include <charconv>
#include <cinttypes>

#include "compiler/schedule/program.h"

namespace npu::compiler {
namespace {

constexpr int64_t kMinPiece = 4096, kMinBlock = 64, kMaxSlack = 1 << 16, kMaxTransfers = 1 << 16;
constexpr int64_t kPieceGrain = 4, kMinLmem = 4;

/// The parts of a text between separators.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  while (true) {
    const size_t at = text.find(separator);
    out.push_back(text.substr(0, at));
    if (at == text.npos) return out;
    text.remove_prefix(at + 1);
  }
}

template <class T>
bool parse_number(std::string_view text, T &out, T least, T most, int base = 10) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out, base);
  return error == std::errc() && end == text.data() + text.size() && !text.empty() && out >= least && out <= most;
}
bool parse_index(std::string_view text, uint32_t &out) { return parse_number(text, out, 0u, UINT32_MAX); }
bool parse_bytes(std::string_view text, int64_t &out, int64_t least) {
  return parse_number(text, out, least, INT64_MAX);
}

/// A name, as the file has it, for each value of a type.
template <class T>
struct Name {
  const char *text;
  T value;
};
constexpr Name<bool> kAll[] = {{"needed", false}, {"all", true}}, kJudge[] = {{"judged", true}, {"unjudged", false}};
constexpr Name<bool> kAbove[] = {{"above", true}};
constexpr Name<Ahead> kAhead[] = {{"never", Ahead::Never}, {"always", Ahead::Always}};
constexpr Name<ResultPlace> kResult[] = {{"local", ResultPlace::Local}, {"memory", ResultPlace::Memory}};

template <class T, size_t N>
bool parse_name(const Name<T> (&names)[N], std::string_view text, T &out) {
  const auto it = std::find_if(std::begin(names), std::end(names), [&](const auto &n) { return text == n.text; });
  if (it != std::end(names)) out = it->value;
  return it != std::end(names);
}
template <class T, size_t N>
std::string name_of(const Name<T> (&names)[N], T value) {
  return std::find_if(std::begin(names), std::end(names), [&](const auto &n) { return n.value == value; })->text;
}

struct Line {
  RecordKey key;
  Record record;
};

bool parse_ahead(std::string_view text, Line &line) {
  const auto parts = split(text, ',');
  if (parts.size() != 4 || line.record.choices.prefetch) return false;
  PrefetchPolicy &p = line.record.choices.prefetch.emplace();
  return parse_name(kAll, parts[0], p.all) && parse_name(kJudge, parts[1], p.judge) &&
         parse_bytes(parts[2], p.piece_bytes, kMinPiece) && p.piece_bytes % kPieceGrain == 0 &&
         parse_number(parts[3], p.slack, int64_t{0}, kMaxSlack);
}

bool parse_op_field(std::string_view text, OpChoice &op) {
  const size_t equals = std::min(text.find('='), text.size() - 1);
  const std::string_view name = text.substr(0, equals), value = text.substr(equals + 1);
  if (name == "room") return parse_number(value, op.room, int64_t{1}, OpChoice::kWhole);
  if (name == "block") return parse_bytes(value, op.weight_block, kMinBlock);
  if (name == "transfers") return parse_number(value, op.transfers, int64_t{0}, kMaxTransfers);
  if (name == "buffers") return parse_name(kAbove, value, op.above);
  if (name == "evictions") return parse_number(value, op.evictions, int64_t{0}, INT64_MAX);
  return name == "result" && parse_name(kResult, value, op.result);
}

bool parse_op(std::string_view text, Line &line) {
  const auto parts = split(text, ':');
  uint32_t index;
  OpChoice op;
  if (!parse_index(parts[0], index)) return false;
  for (size_t i = 1; i < parts.size(); ++i)
    if (parts[i].empty() || !parse_op_field(parts[i], op)) return false;
  return line.record.choices.ops.emplace(index, op).second;
}

bool parse_layer(std::string_view text, Line &line) {
  const auto parts = split(text, ':');
  uint32_t layer;
  Ahead how;
  return parts.size() == 2 && line.record.choices.prefetch && parse_index(parts[0], layer) &&
         parse_name(kAhead, parts[1], how) && line.record.choices.prefetch->layers.emplace(layer, how).second;
}

bool parse_move(std::string_view text, Line &line) {
  const auto parts = split(text, ':');
  Move move;
  if (parts.size() != 2 || !parse_index(parts[0], move.op) || !parse_index(parts[1], move.before)) return false;
  line.record.choices.moves.push_back(move);
  return true;
}

/// The fields of a record. Those that a record always has come first, each once and in this order.
struct Field {
  const char *name, *expected;
  bool (*parse)(std::string_view, Line &);
};
constexpr Field kFields[] = {
    {"network", "a hash of 16 hexadecimal digits",
     [](std::string_view v, Line &l) {
       return v.size() == 16 && parse_number(v, l.key.network, uint64_t{0}, UINT64_MAX, 16);
     }},
    {"lmem", "a number of bytes",
     [](std::string_view v, Line &l) { return parse_bytes(v, l.key.lmem_bytes, kMinLmem); }},
    {"cycles", "a number",
     [](std::string_view v, Line &l) { return parse_number(v, l.record.cycles, uint64_t{0}, UINT64_MAX); }},
    {"use", "a number of bytes, a multiple of 4096 and not more than lmem",
     [](std::string_view v, Line &l) {
       int64_t &bytes = l.record.choices.lmem_bytes;
       return parse_number(v, bytes, kLmemGrain, l.key.lmem_bytes) && bytes % kLmemGrain == 0;
     }},
    {"block", "a number of bytes from 64 on, once",
     [](std::string_view v, Line &l) {
       int64_t &bytes = l.record.choices.weight_block;
       return bytes == Choices{}.weight_block && parse_bytes(v, bytes, kMinBlock);
     }},
    {"ahead", "needed or all, judged or unjudged, bytes of a piece, slack", parse_ahead},
    {"op",
     "INDEX, and :room=1..64, :block=BYTES, :transfers=N, :evictions=N, :buffers=above or :result=local or memory",
     parse_op},
    {"layer", "INDEX:never or INDEX:always behind an ahead", parse_layer},
    {"move", "INDEX:INDEX", parse_move},
};
constexpr size_t kNeeded = 4;

/// "found 'WORD', ", for a message: not all of what is no text, or too long.
std::string found_text(std::string_view word) {
  std::string text(word.substr(0, 80));
  for (char &c : text)
    if (c < ' ' || c > '~') c = '?';
  return "found '" + text + "', ";
}

/// `words`: without the version.
Status parse_line(const std::vector<std::string_view> &words, Line &line) {
  for (size_t i = 0; i < std::max(words.size(), kNeeded); ++i) {
    const std::string_view word = i < words.size() ? words[i] : std::string_view();
    const size_t equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    const Field *const begin = kFields + std::min(i, kNeeded), *const end = i < kNeeded ? begin + 1 : std::end(kFields);
    const Field *const field = std::find_if(begin, end, [&](const Field &f) { return f.name == name; });
    const std::string found = found_text(word);
    if (field == end)
      return Status::error(found + "expected " +
                           (i < kNeeded ? std::string(begin->name) + "=" : "a field of a record"));
    if (equals == word.npos || !field->parse(word.substr(equals + 1), line))
      return Status::error(found + "expected " + field->name + "=, " + field->expected);
  }
  return {};
}

std::string number(int64_t v) { return std::to_string(v); }

std::string text_of(uint32_t index, const OpChoice &op) {
  std::string out = " op=" + std::to_string(index);
  const OpChoice plain;
  if (op.room != plain.room) out += ":room=" + number(op.room);
  if (op.weight_block != plain.weight_block) out += ":block=" + number(op.weight_block);
  if (op.transfers != plain.transfers) out += ":transfers=" + number(op.transfers);
  if (op.evictions != plain.evictions) out += ":evictions=" + number(op.evictions);
  if (op.above) out += ":buffers=" + name_of(kAbove, op.above);
  if (op.result != plain.result) out += ":result=" + name_of(kResult, op.result);
  return out;
}

std::string text_of(const RecordKey &key, const Record &record) {
  const Choices &c = record.choices;
  char hash[17];
  std::snprintf(hash, sizeof hash, "%016" PRIx64, key.network);
  std::string out = "v" + std::to_string(kRecordVersion) + " network=" + hash + " lmem=" + number(key.lmem_bytes) +
                    " cycles=" + std::to_string(record.cycles) + " use=" + number(c.lmem_bytes);
  if (c.weight_block != Choices().weight_block) out += " block=" + number(c.weight_block);
  if (const auto &p = c.prefetch)
    out += " ahead=" + name_of(kAll, p->all) + "," + name_of(kJudge, p->judge) + "," + number(p->piece_bytes) + "," +
           number(p->slack);
  for (const auto &[index, op] : c.ops) out += text_of(index, op);
  if (c.prefetch)
    for (const auto &[layer, how] : c.prefetch->layers)
      out += " layer=" + std::to_string(layer) + ":" + name_of(kAhead, how);
  for (const Move &m : c.moves) out += " move=" + std::to_string(m.op) + ":" + std::to_string(m.before);
  return out;
}

/// Whether a word is a version, and which.
bool parse_version(std::string_view word, int &version) {
  return !word.empty() && word[0] == 'v' && parse_number(word.substr(1), version, 1, INT32_MAX);
}

}  // namespace

Status Records::parse(const std::string &text, const std::string &name) {
  size_t number = 0;
  for (std::string_view line : split(text, '\n')) {
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const auto words = split(line, ' ');
    int version = 0;
    const bool comment = line[0] == '#';
    const std::string where = name + ":" + std::to_string(number);
    if (!comment && !parse_version(words[0], version))
      return Status::error(found_text(words[0]) + "expected v" + std::to_string(kRecordVersion) +
                           ", the version of a record")
          .within(where);
    if (version != kRecordVersion) {
      kept_.emplace_back(line);
      continue;
    }
    Line parsed;
    NPU_TRY(parse_line({words.begin() + 1, words.end()}, parsed).within(where));
    add(parsed.key, std::move(parsed.record));
  }
  return {};
}

std::string Records::text() const {
  std::string out;
  for (const std::string &line : kept_) out += line + "\n";
  for (const auto &[key, record] : records_) out += text_of(key, record) + "\n";
  return out;
}

const Record *Records::find(const RecordKey &key) const {
  const auto it = records_.find(key);
  return it == records_.end() ? nullptr : &it->second;
}

void Records::add(const RecordKey &key, Record &&record) {
  const auto [at, fresh] = records_.try_emplace(key);
  if (fresh || record.cycles < at->second.cycles) at->second = std::move(record);
}

void Records::remove(const RecordKey &key, const Record &record) {
  const auto it = records_.find(key);
  if (it != records_.end() && it->second == record) records_.erase(it);
}

}  // namespace npu::compiler
