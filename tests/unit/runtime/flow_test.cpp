// SPDX-License-Identifier: MIT
// Stages of several sub-networks: what is read, and what is refused with the reason.
#include "runtime/bmodel/flow.h"

#include <gtest/gtest.h>

#include <functional>

#include "tests/unit/runtime/models.h"

namespace {

using npu::bmodel::Container;
using npu::bmodel::Flow;
using npu::bmodel::StageDesc;
using npu::bmodel::SubNetMode;
using test_models::choose;
using test_models::tensor;

std::string read(const StageDesc &stage, Flow &flow) {
  const auto bytes = test_models::file({test_models::net("n", {stage})});
  std::unique_ptr<Container> c;
  const npu::Status opened = Container::from_memory(bytes.data(), bytes.size(), c);
  if (!opened.ok()) return opened.message();
  const auto &p = *c->model().net()->Get(0)->parameter()->Get(0);
  EXPECT_TRUE(npu::bmodel::has_flow(p));
  npu::bmodel::Program program;
  EXPECT_FALSE(npu::bmodel::read_program(*c, *c->model().net()->Get(0), p, program).ok());
  return npu::bmodel::read_flow(*c, p, flow).message();
}

TEST(FlowReader, GivesTensorsAndOrder) {
  Flow flow;
  ASSERT_EQ(read(choose(), flow), "");
  ASSERT_EQ(flow.nodes.size(), 6u);
  EXPECT_EQ(flow.nodes[0].mode, SubNetMode::kSwitch);
  EXPECT_EQ(flow.nodes[0].id, 7);
  EXPECT_EQ(flow.nodes[0].next, 1);
  EXPECT_EQ(flow.nodes[0].if_true, 2);
  EXPECT_EQ(flow.nodes[0].branch, (std::vector<bool>{false, true}));
  EXPECT_EQ(flow.nodes[3].mode, SubNetMode::kMerge);
  EXPECT_EQ(flow.nodes[3].from[0].size(), 2u);
  EXPECT_EQ(flow.nodes[5].op, NPU_CPU_ARGMAX);
  EXPECT_EQ(flow.nodes[5].param.axis, -1);
  EXPECT_EQ(flow.nodes[5].next, npu::bmodel::FlowNode::kEnd);
  EXPECT_EQ(flow.nodes[4].program.regions.size(), 2u);
  EXPECT_EQ(flow.tensors.size(), 9u);
}

struct Damage {
  const char *name;
  std::function<void(StageDesc &)> apply;
  const char *message;
};

class DamagedFlow : public testing::TestWithParam<Damage> {};

TEST_P(DamagedFlow, IsRefusedWithTheReason) {
  StageDesc stage = choose();
  GetParam().apply(stage);
  Flow flow;
  const std::string why = read(stage, flow);
  EXPECT_NE(why.find(GetParam().message), std::string::npos) << "got: " << why;
}

const Damage kDamages[] = {
    {"Mode", [](StageDesc &s) { s.subs[3].mode = 4; }, "sub-network 3: mode 4, expected 0"},
    {"NegativeMode", [](StageDesc &s) { s.subs[3].mode = -1; }, "sub-network 3: mode -1"},
    {"Loop", [](StageDesc &s) { s.subs[4].next = {3}; }, "form a loop"},
    {"LoopToItself",
     [](StageDesc &s) {
       s.subs[0].next = {7, 2};
     },
     "form a loop"},
    {"NextOutOfRange", [](StageDesc &s) { s.subs[4].next = {6}; },
     "sub-network 4: the next sub-network is 6, which does not exist"},
    {"TwoNext",
     [](StageDesc &s) {
       s.subs[4].next = {5, 5};
     },
     "sub-network 4: 2 next sub-networks, expected at most 1"},
    {"SwitchWithOneNext", [](StageDesc &s) { s.subs[0].next = {1}; }, "sub-network 7: 1 next sub-networks, expected 2"},
    {"SwitchThatEnds",
     [](StageDesc &s) {
       s.subs[0].next = {1, -1};
     },
     "the next sub-network is -1"},
    {"IdTwice", [](StageDesc &s) { s.subs[1].id = 2; }, "two sub-networks have the id 2"},
    {"NeverReached",
     [](StageDesc &s) {
       s.subs[0].next = {1, 1};
       s.subs[0].branch = {0, 0};
     },
     "sub-network 2: nothing leads to it"},
    {"MissingTensor", [](StageDesc &s) { s.subs[4].inputs[0].name = "nothing"; },
     "sub-network 4: it reads 'nothing', which is not written before on every way to it"},
    {"OtherBranchesTensor", [](StageDesc &s) { s.subs[1].inputs[0].name = "yes"; },
     "sub-network 1: it reads 'yes', which is not written before"},
    {"ReadTooEarly", [](StageDesc &s) { s.subs[1].inputs[0].name = "m"; },
     "sub-network 1: it reads 'm', which is not written before"},
    {"WrittenOnOneWayOnly", [](StageDesc &s) { s.subs[4].inputs[0].name = "ten"; },
     "sub-network 4: it reads 'ten', which is not written before on every way to it"},
    {"TwoWriters", [](StageDesc &s) { s.subs[2].outputs[0].name = "ten"; },
     "sub-network 2: it writes 'ten', which sub-network 1 writes, too"},
    {"WritesAnInput", [](StageDesc &s) { s.subs[4].outputs[0].name = "x"; },
     "sub-network 4: it writes 'x', an input of the network"},
    {"OutputUnwritten", [](StageDesc &s) { s.subs[4].outputs[0].name = s.subs[5].inputs[0].name = "other"; },
     "no sub-network writes the output 'y'"},
    {"OutputOnOneWayOnly", [](StageDesc &s) { s.subs[2].next = {}; },
     "sub-network 2: the network may end here without its output 'y'"},
    {"InputIsOutput", [](StageDesc &s) { s.outputs[0].name = "x"; }, "no sub-network writes the output 'x'"},
    {"TwoInputsOfAName", [](StageDesc &s) { s.inputs[1] = s.inputs[0]; }, "two inputs are named 'x'"},
    {"OtherShape",
     [](StageDesc &s) {
       s.subs[1].inputs[0].shape = {8, 1};
     },
     "sub-network 1: tensor 'no' has another type or shape than elsewhere"},
    {"OtherType", [](StageDesc &s) { s.subs[5].outputs[0].dtype = 7; },
     "sub-network 5: tensor 'index' has another type or shape than elsewhere"},
    {"ConditionOfWrongType", [](StageDesc &s) { s.inputs[1].dtype = s.subs[0].inputs[1].dtype = 1; },
     "sub-network 7: its condition 'flag' (the last input) is not one element of"},
    {"ConditionOfTwoElements", [](StageDesc &s) { s.inputs[1].shape = s.subs[0].inputs[1].shape = {2}; },
     "sub-network 7: its condition 'flag' (the last input) is not one element of"},
    {"SwitchSource", [](StageDesc &s) { s.subs[0].from[1] = {2}; }, "its output 'yes' comes from input 2 of 2"},
    {"SwitchSourceKind", [](StageDesc &s) { s.subs[0].from[1] = {1}; },
     "its output 'yes' has another type or size than 'flag'"},
    {"SwitchWithoutBranches", [](StageDesc &s) { s.subs[0].branch.pop_back(); },
     "a switch of 2 outputs has sources for 2 and branches for 1"},
    {"MergeSource",
     [](StageDesc &s) {
       s.subs[3].from[0] = {0, -1};
     },
     "its output 'm' comes from input -1 of 2"},
    {"MergeOfNothing", [](StageDesc &s) { s.subs[3].from[0] = {}; }, "its output 'm' comes from nowhere"},
    {"MergeWithoutSources", [](StageDesc &s) { s.subs[3].from.clear(); }, "a merge of 1 outputs has sources for 0"},
    {"MergeOfOneBranchOnly", [](StageDesc &s) { s.subs[3].from[0] = {1}; },
     "sub-network 3: there is a way to it on which nothing is written for its output 'm'"},
    {"NoInput", [](StageDesc &s) { s.subs[1].inputs.clear(); }, "sub-network 1: no input"},
    {"ProgramOfAnotherShape", [](StageDesc &s) { s.subs[4].regions[0].bytes = 33; },
     "sub-network 4: region 0: 33 bytes, what it stands for has 32"},
    {"RegionWithoutTensor", [](StageDesc &s) { s.subs[4].regions[0].index = 1; },
     "sub-network 4: region 0: tensor number 1 does not exist"},
    {"ParamTooShort", [](StageDesc &s) { s.subs[5].param.pop_back(); },
     "sub-network 5: the parameters of its CPU operator have 63 bytes, expected 64"},
    {"ParamMagic", [](StageDesc &s) { s.subs[5].param[0] = 0; }, "parameters of its CPU operator are not for QNPU1"},
    {"ParamVersion", [](StageDesc &s) { s.subs[5].param[4] = 9; }, "version 9, expected 1"},
    {"ParamReserved", [](StageDesc &s) { s.subs[5].param[63] = 1; }, "reserved words of the parameters"},
    {"TooMany",
     [](StageDesc &s) {
       while (s.subs.size() <= npu::bmodel::kMaxSubNets) s.subs.push_back(s.subs[1]);
     },
     "257 sub-networks, at most 256 are possible"},
};

INSTANTIATE_TEST_SUITE_P(Flow, DamagedFlow, testing::ValuesIn(kDamages),
                         [](const auto &info) { return std::string(info.param.name); });

// An output may have the name of an input, and several the same: sub-networks write them under names of their own.
TEST(FlowReader, OutputsMayShareNames) {
  StageDesc stage = choose();
  stage.outputs[0].name = "x";
  for (auto &sub : stage.subs)
    for (auto *list : {&sub.inputs, &sub.outputs})
      for (auto &t : *list)
        if (t.name == "y") t.name = "x (output 0)";
  Flow flow;
  EXPECT_EQ(read(stage, flow), "");
  EXPECT_EQ(npu::bmodel::written_names({"x", "z (output 3)"}, {"y", "x", "y", "z", "z"}),
            (std::vector<std::string>{"y", "x (output 1)", "y (output 2)", "z", "z (output 4)"}));
  EXPECT_EQ(npu::bmodel::written_names({"y (output 1)"}, {"y", "y"}), (std::vector<std::string>{"y", "y (output 1)'"}));
}

// A sub-network without an id has its place as id; one switch may lead to the same place twice.
TEST(FlowReader, IdsMayBeLeftOut) {
  StageDesc stage = choose();
  for (auto &s : stage.subs) s.id = -1;
  Flow flow;
  EXPECT_EQ(read(stage, flow), "");
  EXPECT_EQ(flow.nodes[5].id, 5);
}

}  // namespace
