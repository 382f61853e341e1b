// SPDX-License-Identifier: MIT
// A run of nodes in turns: a piece of what it makes after the other, so that what lies between its nodes is small
// enough for local memory.
//
// A piece is a band of rows, or some pictures of a batch. All nodes of the run compute what one piece needs, then what
// the next one needs. Rows that two pieces need are computed twice. What others read of the run is put together from
// the pieces.
#ifndef NPU_GRAPH_TURNS_H
#define NPU_GRAPH_TURNS_H

#include "compiler/graph/cut_rules.h"

namespace npu::graph {

inline size_t index(ValueId v) { return static_cast<size_t>(v); }

/// Nodes [begin, end) in turns.
struct Turns {
  size_t begin = 0, end = 0;
  int axis = 0;                        ///< along which what the last node makes is cut
  int64_t count = 1;                   ///< of pieces; all but the last one have the same size
  std::vector<size_t> to_memory = {};  ///< nodes of which others get what goes to memory piece by piece
  bool operator==(const Turns &) const = default;
};

/// A node that reads a value.
struct Reader {
  size_t node, operand;
};
/// Of each value.
using Readers = std::vector<std::vector<Reader>>;
Readers readers_of(const Graph &graph);

/// What the nodes of a run compute for one piece. The run grows from its end.
class Piece {
 public:
  /// What a node computes; nothing (an empty box) where the piece needs nothing of it.
  struct Part {
    int axis = kWhole;  ///< along which it is a part
    Box made;
    Box kept;           ///< what others get of it; an empty list: nothing
    bool read = false;  ///< by nodes of the run
  };

  Piece(const Graph &graph, const Readers &readers, const Turns &turns, int64_t number);

  /// Takes in the node in front of the run; false, and no more can be done, if that cannot be computed in turns.
  bool extend();
  size_t begin() const { return begin_; }
  const Part &part(size_t node) const { return parts_[turns_.end - 1 - node]; }

 private:
  bool add_needs(const Node &node, Part &part) const;
  bool add_kept(const Node &node, Part &part) const;
  int64_t cut(int64_t size, int64_t number) const;

  const Graph &g_;
  const Readers &readers_;
  const Turns turns_;
  const int64_t number_;
  int64_t size_, step_;  ///< of what the last node makes, and of a piece of it
  size_t begin_;
  std::vector<Part> parts_;  ///< of the nodes, the last one first
};

/// Whether a node's result is a view of its operands.
bool is_view(const Node &n);

/// Runs of a network, in its order, and estimated cycles with and without turns.
struct TurnsFound {
  std::vector<Turns> runs;
  double cycles = 0, alone = 0;
};
/// Ways of taking turns that are worth compiling, of the first `nodes` nodes, for that much local memory.
std::vector<TurnsFound> find_turns(const Graph &graph, size_t nodes, int64_t lmem_bytes);
/// Runs as long as they can be, in 2, 3 or 4 turns, with results in memory or not: all that can be done, worth it or
/// not.
std::vector<Turns> longest_runs(const Graph &graph);

/// Replaces runs of nodes, in the order of the graph, by their pieces. An error if one of them cannot be computed so.
Status take_turns(const Graph &graph, const std::vector<Turns> &runs, Graph &out);

}  // namespace npu::graph

#endif  // NPU_GRAPH_TURNS_H
