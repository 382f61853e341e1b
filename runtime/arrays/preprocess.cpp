// SPDX-License-Identifier: MIT
// The text form of a preprocessing.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include "runtime/arrays/picture.h"

namespace npu::arrays {
namespace {

/// "0.5", "1/255".
bool parse_fraction(std::string_view text, double &out) {
  const size_t slash = text.find('/');
  double parts[2] = {0, 1};
  for (int i = 0; i < (slash == text.npos ? 1 : 2); ++i) {
    const std::string_view part = i ? text.substr(slash + 1) : text.substr(0, slash);
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), parts[i]);
    if (error != std::errc() || end != part.data() + part.size() || part.empty()) return false;
  }
  out = parts[0] / parts[1];
  return std::isfinite(out);
}

/// "256" or "320x240".
bool parse_size(std::string_view text, std::array<int64_t, 2> &out) {
  constexpr int64_t kMost = 1 << 15;
  const size_t x = text.find('x');
  for (size_t i = 0; i < (x == text.npos ? 1u : 2u); ++i) {
    const std::string_view part = i ? text.substr(x + 1) : text.substr(0, x);
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), out[i]);
    if (error != std::errc() || end != part.data() + part.size() || out[i] < 1 || out[i] > kMost) return false;
  }
  return true;
}

bool parse_numbers(const std::vector<std::string> &words, std::vector<double> &out) {
  out.clear();
  for (const std::string &word : words)
    if (!parse_fraction(word, out.emplace_back())) return false;
  return words.size() == 1 || words.size() == 3;
}

/// What one key says; false: its value is none.
bool set(const std::string &key, const std::vector<std::string> &words, Preprocess &out) {
  if (key == "mean") return parse_numbers(words, out.mean);
  if (key == "std") {
    if (!parse_numbers(words, out.std)) return false;
    for (double v : out.std)
      if (v == 0) return false;
    return true;
  }
  if (words.size() != 1) return false;
  const std::string &word = words[0];
  if (key == "resize") return parse_size(word, out.resize);
  if (key == "scale") return parse_fraction(word, out.scale);
  if (key == "crop") {
    if (!parse_size(word, out.crop)) return false;
    if (out.crop[1] == 0) out.crop[1] = out.crop[0];
    return true;
  }
  if (key == "order") {
    const std::map<std::string, Preprocess::Order> orders{
        {"rgb", Preprocess::Order::Rgb}, {"bgr", Preprocess::Order::Bgr}, {"gray", Preprocess::Order::Gray}};
    const auto found = orders.find(word);
    if (found != orders.end()) out.order = found->second;
    return found != orders.end();
  }
  out.channels_last = word == "nhwc";
  return word == "nhwc" || word == "nchw";
}

const std::map<std::string, std::string> kKeys{{"resize", "a size such as 256 or 320x240"},
                                               {"crop", "a size such as 224 or 320x240"},
                                               {"scale", "a number such as 1/255"},
                                               {"mean", "one or three numbers"},
                                               {"std", "one or three numbers, none of them 0"},
                                               {"order", "rgb, bgr or gray"},
                                               {"layout", "nchw or nhwc"}};

}  // namespace

Status parse_preprocess(const std::string &text, Preprocess &out) {
  out = {};
  std::vector<std::pair<std::string, std::vector<std::string>>> keys;
  for (size_t from = 0; from < text.size();) {
    const size_t end = std::min(text.find(',', from), text.size());
    std::string word = text.substr(from, end - from);
    from = end + 1;
    const size_t equals = word.find('=');
    if (equals != std::string::npos)
      keys.push_back({word.substr(0, equals), {word.substr(equals + 1)}});
    else if (!keys.empty())
      keys.back().second.push_back(std::move(word));
    else
      return Status::error("--preprocess " + text + ": KEY=VALUE,... is expected");
  }
  std::set<std::string> given;
  for (const auto &[key, words] : keys) {
    const auto known = kKeys.find(key);
    if (known == kKeys.end())
      return Status::error("--preprocess: there is no '" + key +
                           "': resize, crop, scale, mean, std, order and layout are known");
    if (!given.insert(key).second) return Status::error("--preprocess: " + key + " is given twice");
    if (!set(key, words, out)) return Status::error("--preprocess: " + key + " is expected to be " + known->second);
  }
  if (out.order == Preprocess::Order::Gray && (out.mean.size() > 1 || out.std.size() > 1))
    return Status::error("--preprocess: mean and std of gray pictures are one number each");
  return {};
}

}  // namespace npu::arrays
