// SPDX-License-Identifier: MIT
// Samples for calibration as files in a folder:
//
//   *.npz                     each a sample, with an array for each input, by its name
//   *.npy, *.png, *.jpg, ...  each a sample, of a network with one input; also in folders below
//   NAME/*.npy, ...           a folder for each input; files of the same name are a sample
//
// Arrays and pictures may lack dimensions of 1 in front, and the batch: then it is repeated.
#ifndef NPU_NPUC_FOLDER_H
#define NPU_NPUC_FOLDER_H

#include <optional>

#include "compiler/quantize/options.h"
#include "runtime/arrays/picture.h"

namespace npu::npuc {

class FolderSamples : public quantize::Samples {
 public:
  /// At most `most` samples, spread evenly over all files in the order of their names. Pictures need a preprocessing.
  FolderSamples(std::string folder, size_t most, std::optional<arrays::Preprocess> preprocess)
      : folder_(std::move(folder)), most_(most), preprocess_(std::move(preprocess)) {}

  Status open(const std::vector<quantize::Input> &inputs) override;
  size_t count() const override { return samples_.size(); }
  /// The path below the folder, or below those of the inputs.
  std::string name(size_t index) const override { return samples_[index].name; }
  Status load(size_t index, std::vector<graph::Tensor> &out) const override;

 private:
  struct Sample {
    std::string name;
    std::vector<std::string> files;  ///< below the folder: one, or one for each input
  };

  Status list_files(std::vector<std::string> &out) const;
  Status group_by_input(const std::vector<std::string> &files);
  Status load_archive(const std::string &file, std::vector<graph::Tensor> &out) const;
  Status load_file(const std::string &file, const quantize::Input &input, graph::Tensor &out) const;
  std::string path(const std::string &file) const { return folder_ + "/" + file; }

  std::string folder_;
  size_t most_;
  std::optional<arrays::Preprocess> preprocess_;
  std::vector<quantize::Input> inputs_;
  std::vector<Sample> samples_;
};

/// Lines of a sample's name and its class, a number behind the last blank. Empty lines and lines that begin with #
/// count as none.
Status read_labels(const std::string &path, std::map<std::string, int64_t> &out);

}  // namespace npu::npuc

#endif  // NPU_NPUC_FOLDER_H
