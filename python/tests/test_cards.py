# SPDX-License-Identifier: MIT
"""Two cards: tensors are taken on the device that they are on only. Needs two: NPU_SIM=cards=2."""
import asyncio
import os
import subprocess
import unittest

import numpy as np
import qnpu
import sophon.sail as sail
import support

ON_ONE = "the tensor is on device 1, expected device 0"
ON_NONE = "the tensor is on device 0, expected device 1"


class Cards(support.Test):
    def setUp(self):
        super().setUp()
        self.assertEqual(len(qnpu.devices()), 2, "NPU_SIM=cards=2")
        self.picture = support.pictures()[0][0]
        self.right = support.pictures()[1][0]

    def near(self, got):
        self.assertLess(np.abs(np.asarray(got).reshape(10) - self.right).max(), 1e-5)

    def test_tensors_of_another_device_are_refused(self):
        with qnpu.Session(support.digits(), device=0) as session:
            there = qnpu.tensor(self.picture, 1)
            text = ["network 'digits' input 'image'", ON_ONE]
            self.fails(text, session.run, there)
            self.fails(text, session.run, there, numbers=True)
            self.fails(text, lambda: asyncio.run(session.run_async(there)))
            place = qnpu.Tensor(there.device, (1, 10), "float32")
            self.fails(["network 'digits' output 'probabilities'", ON_ONE], session.run, self.picture,
                       out={"probabilities": place})
            self.assertFalse(place.numpy().any())
            self.near(session.run(self.picture)["probabilities"])
        with qnpu.Session(support.digits(), device=1) as session:
            self.near(session.run(there, out={"probabilities": place})["probabilities"].numpy())
            self.fails(ON_NONE, session.run, qnpu.tensor(self.picture, 0))

    def test_another_object_of_the_same_device_does(self):
        with qnpu.Session(support.digits(), device=1) as session:
            place = qnpu.Tensor(qnpu.Device(1), (1, 10), "float32")
            session.run(qnpu.tensor(self.picture, qnpu.Device(1)), out={"probabilities": place})
            self.near(place.numpy())

    def test_distributed_networks_have_tensors_on_several(self):
        seeds = os.path.join(os.environ["QNPU_BUILD"], "bin", "bmodel_seeds")
        subprocess.run([seeds, self.folder], check=True)
        values = np.arange(8, dtype=np.float32).reshape(1, 8)
        with qnpu.Session(self.path("steps.bmodel"), device=[0, 1]) as session:
            (x,), (y,) = session.inputs, session.outputs
            self.assertEqual((x.device, y.device), (0, 1))
            place, wrong = session.tensor(y.name), qnpu.Tensor(session.device, (1, 8), "float32")
            self.assertEqual((session.tensor(x.name).device.index, place.device.index), (0, 1))
            session.run(qnpu.tensor(values, 0), out={y.name: place})
            np.testing.assert_array_equal(place.numpy(), values + 3)
            self.fails([f"output '{y.name}'", ON_NONE], session.run, values, out={y.name: wrong})
            self.fails([f"input '{x.name}'", ON_ONE], session.run, qnpu.tensor(values, 1))
        with qnpu.Session(self.path("steps.bmodel"), device=[1, 0]) as session:
            session.run(qnpu.tensor(values, 1), out={y.name: wrong})
            np.testing.assert_array_equal(wrong.numpy(), values + 3)

    def test_sail(self):
        engine = sail.Engine(support.digits_model(), 0, sail.IOMode.SYSIO)
        graph = engine.get_graph_names()[0]
        far, near = sail.Tensor(sail.Handle(1), self.picture), sail.Tensor(sail.Handle(0), self.picture)
        outputs = engine.create_output_tensors_map(graph)
        self.fails(["input 'image'", ON_ONE], engine.process, graph, {"image": far})
        self.fails(["input 'image'", ON_ONE], engine.process, graph, {"image": far}, outputs)
        self.fails(["output 'probabilities'", ON_ONE], engine.process, graph, {"image": near},
                   {"probabilities": sail.Tensor(sail.Handle(1), [1, 10], sail.BM_FLOAT32, True, True)})
        engine.process(graph, {"image": near}, outputs)
        self.near(outputs["probabilities"].asnumpy())

    def test_several_devices_share_a_batch(self):
        path = self.path("digits.bmodel")
        support.digits().save(path)
        engine = sail.MultiEngine(path, [0, 1])
        pictures, right = support.pictures()
        got = engine.process({"image": pictures[:5].reshape(5, 1, 8, 8)})["probabilities"]
        self.assertLess(np.abs(got - right[:5]).max(), 1e-5)
        made = engine.process([{"image": sail.Tensor(sail.Handle(i), self.picture)} for i in (1, 0)])
        for outputs, device in zip(made, (1, 0)):
            self.assertEqual(outputs["probabilities"].device_id(), device)
            self.near(outputs["probabilities"].asnumpy())


if __name__ == "__main__":
    unittest.main()
