// SPDX-License-Identifier: MIT
// Tensors of a network that come from files.
#ifndef NPU_ARRAYS_INPUTS_H
#define NPU_ARRAYS_INPUTS_H

#include <map>
#include <set>

#include "common/status.h"
#include "runtime/arrays/picture.h"

namespace npu::arrays {

/// An input of a network.
struct Input : cpu::TensorKind {
  std::string name;
};

enum class FileKind : uint8_t { None, Array, Archive, Picture };

/// By the end of its name: .npy, .npz, .png, .jpg, .jpeg, .bmp, .ppm or .pgm, in small or capital letters.
FileKind kind_of(const std::string &file);

/// A tensor as the input wants it. Its shape may lack dimensions of 1 in front, and the batch: then it is repeated.
/// Integers are taken as they are, where the input's type can hold them; an input of float32 takes any numbers.
Status fit(const cpu::Tensor &from, const Input &input, cpu::Tensor &out);

/// Those arrays of an archive (.npz) that are wanted and there, by name, and the names of `others`, if given. Errors
/// name the file.
Status read_archive(const std::string &path, const std::set<std::string> &names,
                    std::map<std::string, cpu::TensorPtr> &out, std::set<std::string> *others = nullptr);

/// A picture as a network sees it (to_tensor). Errors name the file.
Status read_picture(const std::string &path, const Preprocess &preprocess, cpu::Tensor &out);

}  // namespace npu::arrays

#endif  // NPU_ARRAYS_INPUTS_H
