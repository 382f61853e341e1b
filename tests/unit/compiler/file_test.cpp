// SPDX-License-Identifier: MIT
// How a file holds together: the order of nodes, names, and data in other files.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "compiler/api/npuc.h"
#include "compiler/import/content_store.h"
#include "tests/unit/compiler/chip.h"
#include "tests/unit/compiler/onnx_builder.h"

namespace npu::test {
namespace {

namespace fs = std::filesystem;

std::string compile(const OnnxBuilder &b, compiler::Compiled &out) {
  const std::string file = b.bytes();
  return compiler::compile_onnx(file.data(), file.size(), {}, out).message();
}

std::string message(const OnnxBuilder &b) {
  compiler::Compiled out;
  return compile(b, out);
}

OnnxBuilder chain() {
  OnnxBuilder b;
  b.output(b.op("Neg", {b.op("Relu", {b.op("Add", {b.input({3}, "x"), b.floats({1, 2, -30})})})}));
  return b;
}

TEST(Order, OfNodesMayBeAny) {
  OnnxBuilder b = chain();
  b.model.mutable_graph()->mutable_node()->SwapElements(0, 2);
  compiler::Compiled out;
  ASSERT_EQ(compile(b, out), "");
  const ChipResult result = run_on_chip(out.net.stages[0], {{1, 1, 1}}, lmem_of(out.net.stages[0]));
  EXPECT_EQ(result.outputs[0], (std::vector<float>{-2, -3, 0}));
}

TEST(Order, NodesThatNeedEachOtherAreNamed) {
  OnnxBuilder b = chain();
  auto &nodes = *b.model.mutable_graph()->mutable_node();
  nodes[0].set_input(1, nodes[1].output(0));
  EXPECT_EQ(message(b), "nodes need each other's results: Add 'Add_0', Relu 'Relu_1'");
  nodes[0].set_input(1, nodes[0].output(0));
  EXPECT_EQ(message(b), "nodes need each other's results: Add 'Add_0'");
}

TEST(Order, ALongLoopIsCutShort) {
  OnnxBuilder b;
  std::string x = b.input({3});
  for (int i = 0; i < 1000; ++i) x = b.op("Add", {x, x});
  b.output(x);
  b.model.mutable_graph()->mutable_node(0)->set_input(0, x);
  const std::string text = message(b);
  EXPECT_NE(text.find(" and 995 more"), std::string::npos) << text;
  EXPECT_LT(text.size(), 300u);
}

TEST(Order, ThousandsOfNodes) {
  OnnxBuilder b;
  std::string x = b.input({3});
  for (int i = 0; i < 10000; ++i) x = b.op(i % 2 ? "Relu" : "Neg", {x});
  b.output(x);
  EXPECT_EQ(message(b), "");
}

TEST(Names, ThatAreMadeTwice) {
  OnnxBuilder b = chain();
  auto &nodes = *b.model.mutable_graph()->mutable_node();
  nodes[2].set_output(0, nodes[0].output(0));
  EXPECT_EQ(message(b), "'" + nodes[0].output(0) + "' is made twice: by Add 'Add_0' and by Neg 'Neg_2'");
  OnnxBuilder twice = chain();
  *twice.model.mutable_graph()->add_initializer() = twice.model.graph().initializer(0);
  EXPECT_NE(message(twice).find("two initializers have the name"), std::string::npos);
}

TEST(Names, OfInitializersThatANodeMakes) {
  OnnxBuilder b = chain();
  b.model.mutable_graph()->mutable_node(1)->set_output(0, b.model.graph().initializer(0).name());
  EXPECT_EQ(message(b), "'c1' is a result of Relu 'Relu_1', and an initializer as well");
}

TEST(Names, OfInitializersThatAreMissing) {
  OnnxBuilder b = chain();
  b.model.mutable_graph()->clear_initializer();
  EXPECT_NE(message(b).find("Add 'Add_0': it reads 'c1', which nothing in front of it makes"), std::string::npos)
      << message(b);
}

/// A folder with a model whose weights lie in another file.
class ExternalData : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("external" + std::to_string(getpid()));
    fs::create_directories(folder_ / "model" / "below");
    const float weights[] = {0, 0, 1, 2, -30};
    for (const fs::path &at : {folder_ / "model" / "data", folder_ / "model" / "below" / "data", folder_ / "outside"})
      std::ofstream(at, std::ios::binary).write(reinterpret_cast<const char *>(weights), sizeof weights);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string compile(const std::string &location, const char *offset = "8", const char *length = "12") {
    OnnxBuilder b = chain();
    auto &t = *b.model.mutable_graph()->mutable_initializer(0);
    t.clear_float_data();
    t.set_data_location(onnx::TensorProto::EXTERNAL);
    for (const auto &[key, value] :
         {std::pair("location", location), {"offset", std::string(offset)}, {"length", std::string(length)}}) {
      auto &e = *t.add_external_data();
      e.set_key(key);
      e.set_value(value);
    }
    const std::string path = folder_ / "model" / "net.onnx";
    std::ofstream(path, std::ios::binary) << b.bytes();
    return compiler::compile_onnx_file(path, {}, out_ = {}).message();
  }

  std::string compile_linked(const fs::path &model, const fs::path &data, const fs::path &links);

  fs::path folder_;
  compiler::Compiled out_;
};

TEST_F(ExternalData, IsReadFromTheModelsFolder) {
  for (const char *location : {"data", "./data", "below/data", "below/../data"}) {
    ASSERT_EQ(compile(location), "") << location;
    const ChipResult result = run_on_chip(out_.net.stages[0], {{1, 1, 1}}, lmem_of(out_.net.stages[0]));
    EXPECT_EQ(result.outputs[0], (std::vector<float>{-2, -3, 0}));
  }
}

TEST_F(ExternalData, FromElsewhereIsRefused) {
  fs::create_symlink(folder_ / "outside", folder_ / "model" / "link");
  const std::string outside = folder_ / "outside";
  for (const std::string &location : {std::string("../outside"), outside, std::string("link"),
                                      std::string("below/../../outside"), std::string("/etc/passwd")}) {
    const std::string text = compile(location);
    EXPECT_NE(text.find("'" + location + "' lies outside of the model's folder"), std::string::npos) << text;
  }
}

/// Compiles by way of a link to the model, with the data behind another one.
std::string ExternalData::compile_linked(const fs::path &model, const fs::path &data, const fs::path &links) {
  for (const fs::path &folder : {model.parent_path(), data.parent_path(), links}) fs::create_directories(folder);
  (void)compile("net.data");
  fs::rename(folder_ / "model" / "net.onnx", model);
  fs::copy_file(folder_ / "outside", data, fs::copy_options::overwrite_existing);
  fs::create_symlink(model, links / "net.onnx");
  fs::create_symlink(data, links / "net.data");
  return compiler::compile_onnx_file(links / "net.onnx", {}, out_ = {}).message();
}

TEST_F(ExternalData, MayLieInTheStoreThatTheModelIsALinkTo) {
  const std::string a(30, 'a'), b(30, 'b');
  EXPECT_EQ(compile_linked(folder_ / "hub" / "blobs" / (a + "1"), folder_ / "hub" / "blobs" / (b + "2"),
                           folder_ / "hub" / "snapshots" / "main"),
            "")
      << "the cache of Hugging Face";
  const fs::path dvc = folder_ / ".dvc" / "cache" / "files" / "md5";
  EXPECT_EQ(compile_linked(dvc / "0a" / a, dvc / "0b" / b, folder_ / "dvc"), "");
  const fs::path annex = folder_ / ".git" / "annex" / "objects";
  const std::string key = "SHA256E-s20--" + a;
  EXPECT_EQ(compile_linked(annex / "Xy" / "9K" / key / key, annex / "0J" / "kP" / (key + "b") / (key + "b"),
                           folder_ / "annex"),
            "");
  const ChipResult result = run_on_chip(out_.net.stages[0], {{1, 1, 1}}, lmem_of(out_.net.stages[0]));
  EXPECT_EQ(result.outputs[0], (std::vector<float>{-2, -3, 0}));
}

/// A link to a model leads to its own folder and below, and to objects of its store, nowhere else.
TEST_F(ExternalData, BesideTheLinkedModelsFolderIsRefused) {
  const std::string a(30, 'a'), b(30, 'b');
  const fs::path dvc = folder_ / "files" / "md5";
  EXPECT_NE(compile_linked(folder_ / "real" / "net.onnx", folder_ / "secret" / "key", folder_ / "links")
                .find("external data: 'net.data' lies outside of the model's folder " + (folder_ / "links").string() +
                      ", and of " + (folder_ / "real").string() + ", to which the model is a link: it is " +
                      (folder_ / "secret" / "key").string() + "; copy model and data into one folder"),
            std::string::npos);
  // In the folders of a store, but no object of it.
  EXPECT_NE(compile_linked(dvc / "0a" / a, dvc / "0b" / "secret", folder_ / "two"), "");
  EXPECT_NE(compile_linked(dvc / "0a" / a, dvc / "secret" / b, folder_ / "three"), "");
  EXPECT_NE(compile_linked(dvc / "0a" / a, folder_ / "other" / "files" / "md5" / "0b" / b, folder_ / "four"), "");
  EXPECT_NE(compile_linked(folder_ / "md5" / "0a" / a, folder_ / "md5" / "0b" / b, folder_ / "five"), "");
}

/// The model alone is a link: its data is looked for beside it, then beside the file.
TEST_F(ExternalData, OfALinkIsFoundBesideTheFile) {
  ASSERT_EQ(compile("data"), "");
  fs::create_directories(folder_ / "links");
  fs::create_symlink(folder_ / "model" / "net.onnx", folder_ / "links" / "net.onnx");
  EXPECT_EQ(compiler::compile_onnx_file(folder_ / "links" / "net.onnx", {}, out_ = {}).message(), "");
  compile("../outside");
  const std::string text = compiler::compile_onnx_file(folder_ / "links" / "net.onnx", {}, out_ = {}).message();
  EXPECT_NE(text.find("'../outside' lies outside of the model's folder"), std::string::npos) << text;
  fs::create_symlink(folder_ / "nowhere", folder_ / "model" / "dangling");
  EXPECT_NE(compile("dangling").find("No such file or directory, to which it is a link"), std::string::npos);
}

TEST_F(ExternalData, ThatWasNotFetchedIsNamed) {
  std::ofstream(folder_ / "model" / "pointer") << "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 20\n";
  EXPECT_NE(compile("pointer", "60").find("it is a Git LFS pointer"), std::string::npos);
  const std::string text = compiler::compile_onnx_file(folder_ / "model" / "pointer", {}, out_ = {}).message();
  EXPECT_NE(text.find("it is a Git LFS pointer, which stands for the file until `git lfs pull`"), std::string::npos);
}

TEST(ContentStore, HasObjectsWithKeysAlone) {
  const std::string hash(64, 'c'), nix = "/nix/store/" + std::string(32, 'q');
  EXPECT_TRUE(graph::in_one_store(nix + "-model/net.onnx", nix + "-data/net.data"));
  EXPECT_TRUE(graph::in_one_store("/r/.git/lfs/objects/ab/cd/" + hash, "/r/.git/lfs/objects/01/23/" + hash));
  EXPECT_TRUE(graph::in_one_store("/c/cas/ab/" + hash, "/c/cas/cd/" + hash));
  EXPECT_FALSE(graph::in_one_store(nix + "-model/net.onnx", "/nix/secret"));
  const std::string other = "/srv/store" + nix;  // a store elsewhere
  EXPECT_TRUE(graph::in_one_store(other + "-model/share/net.onnx", other + "-data/share/net.data"));
  EXPECT_FALSE(graph::in_one_store(other + "-model/share/net.onnx", nix + "-data/share/net.data"));
  EXPECT_FALSE(graph::in_one_store(other + "-model/share/net.onnx", "/srv/store/nix/store/mine/net.data"));
  EXPECT_FALSE(graph::in_one_store("/srv/store/models/net.onnx", "/srv/store/secrets/net.data"));
  EXPECT_FALSE(graph::in_one_store("/r/.git/lfs/objects/ab/cd/" + hash, "/r/.git/config"));
  EXPECT_FALSE(graph::in_one_store("/srv/ab/" + hash, "/srv/cd/" + hash));
  EXPECT_FALSE(graph::in_one_store("/", "/"));
  EXPECT_FALSE(graph::in_one_store("", ""));
}

TEST_F(ExternalData, ThatIsNoRegularFileIsRefused) {
  const fs::path fifo = folder_ / "model" / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  for (const char *location : {"fifo", "below"})
    EXPECT_NE(compile(location).find("is not a regular file"), std::string::npos) << location;
  EXPECT_NE(compile(std::string("data\0x", 6)).find("its location has a byte 0"), std::string::npos);
}

TEST_F(ExternalData, ThatDoesNotFitIsNamed) {
  const auto expect = [](const std::string &text, const char *part) {
    EXPECT_NE(text.find("initializer 'c1': external data"), std::string::npos) << text;
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect(compile("nothing"), "cannot open 'nothing': No such file");
  expect(compile("data", "12"), "it has 20 bytes, the tensor begins at 12 and has 12");
  expect(compile("data", "18446744073709551615"), "it has 20 bytes");
  expect(compile("data", "8", "8"), "8 bytes, the tensor has 12");
  expect(compile("data", "eight"), "offset 'eight' is not a number");
  expect(compile(""), "without a location");
}

}  // namespace
}  // namespace npu::test
