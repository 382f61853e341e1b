// SPDX-License-Identifier: MIT
// Reading a .bmodel: a 64-byte header, the flatbuffer, the blob that its Binary entries index. Everything is verified
// before anyone sees it.
#ifndef NPU_BMODEL_CONTAINER_H
#define NPU_BMODEL_CONTAINER_H

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bmodel_generated.h"
#include "common/status.h"
#include "runtime/bmodel/program.h"
#include "runtime/bmodel/types.h"

namespace npu::bmodel {

inline constexpr uint32_t kMagic = 0xFF55AAEEu;
inline constexpr std::string_view kChip = "QNPU1";
inline constexpr std::string_view kVersion = "2.2";

struct FileHeader {
  uint32_t magic;
  uint32_t header_size;
  uint32_t flatbuffers_size;
  uint32_t binary_size;
  uint32_t reserved[12];
};
static_assert(sizeof(FileHeader) == 64);

/// A file and where it is mapped.
struct MappedFile {
  int fd = -1;
  std::span<const uint8_t> mapping{};

  /// Whether these bytes are the file's.
  bool has(std::span<const uint8_t> bytes) const {
    return fd >= 0 && bytes.data() >= mapping.data() && bytes.data() + bytes.size() <= mapping.data() + mapping.size();
  }
  uint64_t offset_of(const uint8_t *byte) const { return static_cast<uint64_t>(byte - mapping.data()); }
};

/// A model file or buffer. The views that it hands out live as long as it does. Immutable after opening, hence
/// thread-safe.
class Container {
 public:
  /// Maps a file read-only. The error names the file and what is wrong with it.
  static Status open(const std::string &path, std::unique_ptr<Container> &out);
  /// Reads from memory of the caller that outlives the container.
  static Status from_memory(const void *data, size_t size, std::unique_ptr<Container> &out);
  /// Reads the header and the flatbuffer only; what follows them need not be in memory, and every binary() is empty.
  /// `size` is the model's.
  static Status from_head(const void *data, size_t size, std::unique_ptr<Container> &out);
  ~Container();
  Container(const Container &) = delete;
  Container &operator=(const Container &) = delete;

  const fb::Model &model() const { return *model_; }
  /// Contents of a Binary; empty for a null one. Its range was checked at opening.
  std::span<const uint8_t> binary(const fb::Binary *b) const;
  /// Whether from_head() made it.
  bool head_only() const { return head_only_; }
  /// All that Binary entries can point into.
  std::span<const uint8_t> blob() const { return blob_; }
  /// The file, open as long as the container lives; none for a buffer.
  const MappedFile &file() const { return file_; }
  /// Name of the file, or "(memory)".
  const std::string &name() const { return name_; }
  /// Compares every coefficient blob with its SHA-256. The error says which differs or has none.
  Status verify_hashes() const;

 private:
  Container() = default;
  Status parse(std::span<const uint8_t> bytes);
  Status check_binaries() const;

  std::string name_;
  MappedFile file_;
  std::vector<uint8_t> aligned_;
  bool head_only_ = false;
  size_t model_bytes_ = 0;  // of a model of which only the head was read
  uint64_t blob_bytes_ = 0;
  std::span<const uint8_t> blob_;  // of blob_bytes_ bytes, or empty: only the head was read
  const fb::Model *model_ = nullptr;
};

/// A file of a finished flatbuffer and the blob that it points into.
Status assemble(std::span<const uint8_t> flat, std::span<const uint8_t> blob, std::vector<uint8_t> &out);

/// The same with room for `blob_bytes` of binary data, zeros so far; `blob` is where they belong.
Status assemble(std::span<const uint8_t> flat, uint64_t blob_bytes, std::vector<uint8_t> &out,
                std::span<uint8_t> &blob);

/// The commands of one core.
struct CoreProgram {
  std::span<const uint8_t> tiu, gdma;
};

/// The program inside a command binary, verified; views into the container.
struct Program {
  npu_program_header header;
  std::vector<npu_program_region> regions;
  std::vector<npu_program_alias> aliases;
  std::vector<std::string_view> layers;
  std::span<const uint8_t> tiu, gdma;   ///< commands of the first core
  std::vector<CoreProgram> more_cores;  ///< of the others
};

/// Whether the model was compiled for this kind of chip. The error says what it was compiled for.
Status check_chip(const Container &container);

/// Finds and checks the program of a stage: header, tables, regions against the stage's tensors, coefficients and
/// memory sizes.
Status read_program(const Container &container, const fb::Net &net, const fb::NetParameter &stage, Program &program);

/// Whether the network itself is in the file, to be compiled for other shapes than the stages': see source.h.
bool has_source(const fb::Net &net);
/// What follows its header, which is checked. Precondition: it has one.
Status read_source(const Container &container, const fb::Net &net, std::span<const uint8_t> &network);

}  // namespace npu::bmodel

#endif  // NPU_BMODEL_CONTAINER_H
