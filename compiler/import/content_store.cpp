// SPDX-License-Identifier: MIT
#include "compiler/import/content_store.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace npu::graph {
namespace {

using Names = std::vector<std::string>;  // parts of a path, from the root on

bool is_hex(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

/// The rest of a hash of at least 128 bits, of which folders have the first digits.
bool is_hash(std::string_view text) { return text.size() >= 28 && is_hex(text); }

/// True for an object of Nix or Guix, HASH-NAME: 32 digits and small letters in front of the name.
bool is_object(std::string_view text) {
  constexpr size_t kHash = 32;
  return text.size() > kHash + 1 && text[kHash] == '-' && std::ranges::all_of(text.substr(0, kHash), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z');
         });
}

/// True if the first `end` names end with those of a store.
bool ends_with(const Names &names, size_t end, const Names &last) {
  if (end < last.size()) return false;
  const auto from = names.begin() + static_cast<std::ptrdiff_t>(end - last.size());
  return std::equal(last.begin(), last.end(), from);
}

/// The number of a path's names that are those of its store; 0: it is in none.
size_t store_length(const Names &names) {
  const size_t n = names.size();
  if (n > 3 && names[2] == "store" && (names[1] == "nix" || names[1] == "gnu")) return 3;
  // A store of Nix elsewhere: of a user, in a chroot, mounted.
  for (size_t i = 0; i + 2 < n; ++i)
    if (names[i] == "store" && is_object(names[i + 1])) return i + 1;
  if (n == 0) return 0;
  const std::string &file = names[n - 1];
  const auto fan = [&](size_t i) { return names[i].size() == 2 && is_hex(names[i]); };
  // .git/lfs/objects/ab/cd/abcd..., .dvc/cache/files/md5/ab/..., DVC before version 3: .dvc/cache/ab/...
  if (n > 5 && is_hash(file) && fan(n - 2) && fan(n - 3) && ends_with(names, n - 3, {"lfs", "objects"})) return n - 3;
  if (n > 4 && is_hash(file) && fan(n - 2))
    for (const Names &store : {Names{"files", "md5"}, Names{".dvc", "cache"}, Names{"cas"}})
      if (ends_with(names, n - 2, store)) return n - 2;
  // .git/annex/objects/Xy/9K/KEY/KEY
  if (n > 6 && file == names[n - 2] && file.find("--") != file.npos && ends_with(names, n - 4, {"annex", "objects"}))
    return n - 4;
  return 0;
}

}  // namespace

bool in_one_store(const std::filesystem::path &a, const std::filesystem::path &b) {
  const auto names = [](const std::filesystem::path &path) {
    Names out;
    for (const auto &name : path) out.push_back(name.string());
    return out;
  };
  const Names x = names(a), y = names(b);
  const size_t length = store_length(x);
  return length && length == store_length(y) &&
         std::equal(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(length), y.begin());
}

}  // namespace npu::graph
