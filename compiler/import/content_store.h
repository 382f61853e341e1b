// SPDX-License-Identifier: MIT
// Stores that keep files under keys of their contents, with links to them from the folders of a user: DVC, Git LFS,
// git-annex, caches of Bazel, Nix, Guix.
#ifndef NPU_GRAPH_CONTENT_STORE_H
#define NPU_GRAPH_CONTENT_STORE_H

#include <filesystem>

namespace npu::graph {

/// True if two files, by paths without links, are objects of one store. Everything in such a store has a key in its
/// path; other files beside it have none and are no objects.
bool in_one_store(const std::filesystem::path &a, const std::filesystem::path &b);

}  // namespace npu::graph

#endif  // NPU_GRAPH_CONTENT_STORE_H
