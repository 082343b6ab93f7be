"""The Python module: the papers' scenarios, runs made in several ways, answers, errors, and the package of `pip install .`.

    python3 tests/library/test_python.py SOURCE_DIR LIBRARY PROGRAM
"""

import array
import filecmp
import glob
import gzip
import importlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock
import zipfile

SOURCE, LIBRARY, PROGRAM = sys.argv[1:4]
os.environ["GRIDSMITH_LIBRARY"] = LIBRARY
os.environ["GRIDSMITH_PROGRAM"] = PROGRAM
sys.path.insert(0, os.path.join(SOURCE, "python"))
import gridsmith


def source(path):
    return os.path.join(SOURCE, path)


def events_of(document):
    return [(event["op"], event["kernel"], event.get("placed")) for event in document["events"]]


class Scenarios(unittest.TestCase):
    def test_the_papers_cases_give_the_papers_answers(self):
        files = sorted(glob.glob(source("scenarios/case-*.json")))
        self.assertGreaterEqual(len(files), 10)
        compared = 0
        for path in files:
            with open(path) as file:
                wanted = json.load(file)
            found = json.loads(gridsmith.Gpu(wanted["gpu"]).show(path, "json"))
            for (op, kernel, placed), answer in zip(events_of(wanted), events_of(found)):
                self.assertEqual((op, kernel), answer[:2], path)
                if placed is not None:
                    compared += 1
                    self.assertEqual(placed, answer[2][: len(placed)], path)
        self.assertGreaterEqual(compared, 20)

    def test_documents_equal_those_of_the_program(self):
        for form in ("csv", "svg", "html", "trace", "json"):
            with open(source("scenarios/case-1.1.json")) as file:  # the title of a page has the name of a file
                wanted = subprocess.run([PROGRAM, "predict", "--" + form, "-"], stdin=file, capture_output=True, text=True,
                                        check=True).stdout
            self.assertEqual(gridsmith.Gpu("rtx3090").show(source("scenarios/case-1.1.json"), form), wanted, form)

    def test_a_recorded_program_is_played_and_compared(self):
        gpu, path = gridsmith.Gpu("h200"), source("corpus/h200-program-eager.jsonl.gz")
        timeline = gpu.timeline(path)
        self.assertEqual(timeline["schema"], "gridsmith.timeline/1")
        self.assertGreaterEqual(len(timeline["operations"]), len(gridsmith.Run.of(path)))
        wanted = subprocess.run([PROGRAM, "predict", "--compare", "--json", path], capture_output=True, text=True, check=True)
        self.assertEqual(gpu.compare(path), json.loads(wanted.stdout))


class Runs(unittest.TestCase):
    def setUp(self):
        self.gpu = gridsmith.Gpu("h200")

    def made(self):
        run = gridsmith.Run()
        run.launch("a", blocks=200, threads=256, registers=64, shared_bytes=100 << 10, duration_us=10)
        return run.launch("b", blocks=40, threads=1024, registers=32, stream="s", duration_us=2.5, spread_us=1)

    EVENTS = [
        {"op": "launch", "kernel": "a", "blocks": 200, "threads": 256, "registers": 64, "shared_bytes": 100 << 10,
         "duration_us": 10},
        {"op": "launch", "kernel": "b", "blocks": 40, "threads": 1024, "registers": 32, "shared_bytes": 0, "stream": "s",
         "duration_us": 2.5, "spread_us": 1},
    ]

    def test_calls_dicts_lists_texts_and_files_are_the_same_run(self):
        document = {"schema": "gridsmith.run/1", "events": self.EVENTS}
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(document, file)
            file.flush()
            runs = [self.made(), document, {"events": self.EVENTS}, self.EVENTS, file.name,
                    gridsmith.Run.parse(json.dumps(document))]
            tables = [self.gpu.predict(run).show("csv") for run in runs]
        self.assertEqual(len(set(tables)), 1)

    def test_lists_have_each_block(self):
        prediction = self.gpu.predict(self.made())
        launch = prediction["a"]
        rows = [line.split(",") for line in prediction.show("csv").splitlines()]
        header = rows[0]
        of_a = [dict(zip(header, row)) for row in rows[1:] if row[header.index("kernel")] == "a"]
        self.assertEqual(len(of_a), 200)
        for row in of_a:
            block = int(row["block"])
            self.assertEqual(int(row["sm"]), launch.sms[block])
            self.assertEqual(int(row["start_ns"]), launch.start_ns[block])
            self.assertEqual(int(row["end_ns"]), launch.end_ns[block])
        self.assertEqual(launch.waiting, 0)
        self.assertEqual([found.kernel for found in prediction], ["a", "b"])
        self.assertEqual(prediction[-1].kernel, "b")
        self.assertRaises(KeyError, lambda: prediction["c"])
        self.assertRaises(IndexError, lambda: prediction[2])

    def test_waiting_blocks_say_why(self):
        run = gridsmith.Run().launch("a", blocks=200, threads=1024, registers=64).launch("b", blocks=3, threads=64, registers=16)
        prediction = self.gpu.predict(run)
        self.assertEqual(prediction["a"].waiting, 68)
        self.assertEqual(list(prediction["a"].sms).count(gridsmith.WAIT), 68)
        self.assertIn("68 of 200 blocks of a wait", prediction["a"].why)
        run.exit("a")
        self.assertEqual(self.gpu.predict(run)["b"].waiting, 0)

    def test_lists_without_numpy(self):
        kept, gridsmith._numpy = gridsmith._numpy, None
        try:
            launch = self.gpu.predict(self.made())["a"]
            self.assertIsInstance(launch.sms, array.array)
            self.assertEqual(len(launch.start_ns), 200)
            self.assertEqual(launch.waiting, 0)
        finally:
            gridsmith._numpy = kept

    def test_files_are_written(self):
        prediction = self.gpu.predict(self.made())
        with tempfile.TemporaryDirectory() as folder:
            for name, begins in (("a.svg", "<svg"), ("a.csv", "run,"), ("a.trace.json", "{"), ("a.txt", "h200")):
                path = os.path.join(folder, name)
                prediction.save(path)
                with open(path) as file:
                    self.assertTrue(file.read().startswith(begins), name)
        self.assertIn("<", prediction._repr_html_())

    def test_a_file_of_many_runs_is_read_one_by_one(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "runs.jsonl.gz")
            with gzip.open(path, "wt") as file:
                for count in (1, 2, 3):
                    events = [dict(self.EVENTS[0], kernel=f"k{i}") for i in range(count)]
                    file.write(json.dumps({"schema": "gridsmith.run/1", "gpu": "h200", "events": events}) + "\n")
            self.assertEqual([len(run) for run in gridsmith.read(path)], [1, 2, 3])
            self.assertEqual({run.gpu for run in gridsmith.read(path)}, {"h200"})
            self.assertRaises(gridsmith.Error, gridsmith.Run.of, path)


class Answers(unittest.TestCase):
    def test_check_says_what_helps(self):
        gpu = gridsmith.Gpu("h200")
        run = gridsmith.Run().launch("mega", blocks=132, threads=256, registers=168, shared_bytes=200 << 10)
        self.assertTrue(gpu.check(run))
        run.launch("nccl", blocks=16, threads=512, registers=96, shared_bytes=60 << 10)
        check = gpu.check(run)
        self.assertIs(check.works, False)
        self.assertIn("16 of 16 blocks of nccl wait", check.why)
        self.assertEqual(check.fixes, ["mega with at most 116 blocks (leaves 16 SMs free)"])
        self.assertEqual(gpu.check(run, fixes=False).fixes, [])

    def test_occupancy_equals_that_of_the_program(self):
        found = gridsmith.Gpu("rtx3090").occupancy(threads=512, registers=32, shared_bytes=32768)
        wanted = json.loads(subprocess.run([PROGRAM, "occupancy", "--json", "--gpu", "rtx3090", "--threads", "512", "--registers",
                                            "32", "--shared", "32768"], capture_output=True, text=True, check=True).stdout)
        self.assertEqual(found.blocks, wanted["blocks_per_sm"])
        self.assertEqual([name.replace(" ", "_") for name in found.limits], wanted["limits"])
        self.assertAlmostEqual(found.percent, wanted["occupancy_percent"], places=2)
        self.assertRaisesRegex(gridsmith.Error, "threads", gridsmith.Gpu("h200").occupancy, threads=2048, registers=32)

    def test_bounds(self):
        found = gridsmith.bound(3, repeat=2)
        self.assertEqual((found.formula_cycles, found.exact_cycles, found.proven_cycles), (17, 18, 18))
        self.assertIsNone(gridsmith.bound(3, repeat=2, search=False).exact_cycles)

    def test_a_dispatcher_gives_the_sms_of_a_prediction(self):
        gpu, run = gridsmith.Gpu("h200"), gridsmith.Run()
        spec = dict(blocks=200, threads=256, registers=96, shared_bytes=60 << 10)
        wanted = list(gpu.predict(run.launch("k", **spec))["k"].sms)
        dispatcher = gpu.dispatcher()
        launch = dispatcher.launch("k", **spec)
        other = dispatcher.copy()
        found = []
        while dispatcher.next(launch) is not None:
            found.append(dispatcher.next(launch))
            dispatcher.place(launch)
        self.assertEqual(found, wanted)
        self.assertIsNone(dispatcher.why(launch))
        self.assertEqual(other.next(launch), wanted[0])
        late = other.launch("late", **dict(spec, blocks=400, priority=-1))
        self.assertIn("of 400 blocks of late wait: ", other.why(late))
        other.exit(launch)
        other.wait_until(5)
        self.assertEqual(other.resident(), 264)
        self.assertRaises(gridsmith.Error, dispatcher.why, 77)
        self.assertRaises(gridsmith.Error, gpu.dispatcher, 1 << 20)

    def test_a_dispatcher_places_and_releases(self):
        dispatcher = gridsmith.Gpu("rtx3090").dispatcher()
        kernel = dispatcher.kernel(threads=512, registers=32, shared_bytes=32768)
        blocks = []
        while dispatcher.next(kernel) is not None:
            blocks.append(dispatcher.place(kernel))
        self.assertEqual(len(blocks), 246)
        self.assertEqual(dispatcher.resident(), 246)
        self.assertRaises(gridsmith.Error, dispatcher.place, kernel)
        dispatcher.release(blocks[0])
        self.assertEqual(dispatcher.next(kernel), 0)
        self.assertEqual(dispatcher.room(kernel, 0), 1)

    def test_gpus_have_names_and_mechanisms(self):
        self.assertIn("h200", gridsmith.gpus())
        self.assertEqual(gridsmith.Gpu("h200").sms, 132)
        self.assertEqual(gridsmith.Gpu(source("gpus/a100.json")).name, "a100")
        run = source("scenarios/case-1.1.json")
        plain, changed = gridsmith.Gpu("rtx3090").predict(run), gridsmith.Gpu("rtx3090", policy="round-robin").predict(run)
        self.assertNotEqual(list(plain[0].sms), list(changed[0].sms))

    def test_traces_are_imported(self):
        trace = {"traceEvents": [
            {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 10, "dur": 5,
             "args": {"device": 0, "stream": 7, "correlation": 1, "registers per thread": 32, "shared memory": 0,
                      "grid": [4, 1, 1], "block": [128, 1, 1]}}],
            "deviceProperties": [{"id": 0, "name": "NVIDIA H200", "numSms": 132}]}
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(trace, file)
            file.flush()
            runs = gridsmith.import_trace(file.name)
        self.assertEqual([run.kernels for run in runs], [["k"]])
        self.assertRaisesRegex(gridsmith.Error, "nowhere.json", gridsmith.import_trace, "/nowhere.json")


class Programs(unittest.TestCase):
    def test_a_recorded_program_is_explained(self):
        path = source("corpus/h200-program-eager.jsonl.gz")
        found = gridsmith.explain(path)
        self.assertEqual(repr(found), "<gridsmith.Explanation: 3 steps of 5962.8 us, busy 7.0%>")
        self.assertAlmostEqual(found.busy + sum(found.idle.values()), 1)
        self.assertEqual(found.document["advice"][0]["change"], "graph")
        self.assertEqual(len(found.kernels), len(found.document["kernels"]))
        asked = gridsmith.explain(path, ["graph", "host=2x"], range="steps=1-2", step_us=5000)
        self.assertEqual([row["change"] for row in asked.document["what_if"]], ["graph", "host=2x"])
        self.assertEqual((asked.document["advice"], asked.step_us, asked.document["part"]["steps"]), ([], 5000, 2))
        self.assertEqual(list(asked.document["ranges"]), [])
        self.assertRaisesRegex(gridsmith.Error, "unknown change", gridsmith.explain, path, "grap")
        self.assertRaisesRegex(gridsmith.Error, "nowhere.jsonl", gridsmith.explain, "/nowhere.jsonl")

    def test_named_ranges_of_a_trace_are_rows(self):
        kernel = {"cat": "kernel", "name": "k", "ts": 20, "dur": 5, "args": {"device": 0, "stream": 7, "correlation": 1,
                  "grid": [4, 1, 1], "block": [64, 1, 1], "registers per thread": 32, "shared memory": 0}}
        trace = {"deviceProperties": [{"id": 0, "name": "NVIDIA H200", "numSms": 132}], "traceEvents": [
            {"cat": "user_annotation", "name": "forward#1", "ts": 5, "dur": 8}, kernel,
            {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 10, "dur": 1, "args": {"correlation": 1}}]}
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(trace, file)
            file.flush()
            found = gridsmith.explain(file.name, range="nvtx=forward")
        self.assertEqual(found.document["ranges"], [{"name": "forward", "ranges": 1, "launches": 1, "host_us": 3, "kernel_us": 5}])

    def test_rows_are_a_frame_or_dicts(self):
        rows = [{"kernel": "a", "us": 1}, {"kernel": "b", "us": 2}]
        for name in ("pandas", "polars"):
            with unittest.mock.patch.dict(sys.modules, {"pandas": None, "polars": None, name: unittest.mock.Mock()}):
                self.assertIs(gridsmith.frame(rows), sys.modules[name].DataFrame.return_value)
                sys.modules[name].DataFrame.assert_called_once_with(rows)
        with unittest.mock.patch.dict(sys.modules, {"pandas": None, "polars": None}):
            self.assertEqual(gridsmith.frame(rows), rows)
            run = gridsmith.Run()
            run.launch("k", blocks=3, threads=64, registers=32)
            self.assertEqual(gridsmith.Gpu("h200").predict(run).frame(), [{"kernel": "k", "blocks": 3, "waiting": 0, "why": None}])

    def test_all_public_names_exist(self):
        self.assertEqual([name for name in gridsmith.__all__ if not hasattr(gridsmith, name)], [])


class Mistakes(unittest.TestCase):
    def test_errors_have_a_place(self):
        with self.assertRaises(gridsmith.Error) as caught:
            gridsmith.Run.parse('{"schema": "gridsmith.run/1",\n "events": [{"op": "launch", "kernel": 7}]}', "mine.json")
        self.assertEqual((caught.exception.file, caught.exception.line), ("mine.json", 2))
        self.assertTrue(str(caught.exception).startswith("mine.json:2:"))

    def test_wrong_calls_are_errors(self):
        gpu, run = gridsmith.Gpu("h200"), gridsmith.Run()
        shape = {"threads": 32, "registers": 16}
        for call in (
            lambda: gridsmith.Gpu("h20x"),
            lambda: gridsmith.Gpu("h200", policy="none"),
            lambda: gridsmith.Gpu("h200", warp_placement="up"),
            lambda: run.launch("k", blocks=0, **shape),
            lambda: run.launch("", blocks=1, **shape),
            lambda: run.launch("a\0b", blocks=1, **shape),
            lambda: run.exit("k"),
            lambda: gpu.predict([{"op": "launch"}]),
            lambda: gpu.predict({"events": [], "what": 1}),
            lambda: gpu.predict([{"op": "launch", "kernel": "k", "blocks": 1, "shared_bytes": 0, "duration_us": float("nan"),
                                  **shape}]),
            lambda: gpu.predict("/nowhere.json"),
            lambda: gpu.predict([{"op": "launch", "kernel": "k", "blocks": 1, "threads": 4096, "registers": 16,
                                  "shared_bytes": 0}]),
            lambda: gpu.show([], "tabel"),
            lambda: gridsmith.bound(0),
            lambda: gridsmith.bound(2 ** 64 + 1),
            lambda: run.launch("a\nb", blocks=1, **shape),
            lambda: run.launch("\udcff", blocks=1, **shape),
            lambda: run.launch("k", blocks=1, stream="a\x01b", **shape),
            lambda: run.launch("k", blocks=2 ** 64 + 1, **shape),
            lambda: run.launch("k", blocks=1, threads=2 ** 32 + 32, registers=16),
            lambda: run.launch("k", blocks=1, priority=2 ** 32, **shape),
            lambda: run.launch("k", blocks=1, duration_us=1e-9, **shape),
            lambda: run.launch("k", blocks=1, duration_us=1e30, **shape),
            lambda: gpu.occupancy(threads=2 ** 32 + 32, registers=16),
            lambda: gpu.dispatcher().next(2 ** 32),
        ):
            self.assertRaises(gridsmith.Error, call)
        self.assertEqual(len(run), 0)

    def test_threads_share_a_gpu(self):
        gpu, found = gridsmith.Gpu("h200"), []

        def work():
            for _ in range(10):
                run = gridsmith.Run().launch("k", blocks=500, threads=256, registers=32, duration_us=1)
                found.append(gpu.predict(run).show("csv"))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((len(found), len(set(found))), (40, 1))


class Examples(unittest.TestCase):
    def test_the_notebook_says_what_it_did(self):
        environment = dict(os.environ, PYTHONPATH=source("python"))
        said = subprocess.run([sys.executable, source("examples/notebook.py")], env=environment, capture_output=True, text=True)
        self.assertEqual(said.stderr, "")
        with open(source("examples/expected/notebook.out")) as file:
            self.assertEqual(said.stdout, file.read())


class Package(unittest.TestCase):
    def test_the_wheel_holds_the_module_and_the_library(self):
        sys.path.insert(0, source("python"))
        backend = importlib.import_module("backend")
        with tempfile.TemporaryDirectory() as folder:
            name = backend.build_wheel(folder)
            with zipfile.ZipFile(os.path.join(folder, name)) as wheel:
                wheel.extractall(os.path.join(folder, "site"))
                # pip looks at both: a regular file, and executable.
                self.assertEqual(wheel.getinfo("gridsmith/gridsmith").external_attr >> 16, 0o100755)
            environment = {key: value for key, value in os.environ.items() if key != "GRIDSMITH_LIBRARY"}
            environment["PYTHONPATH"] = os.path.join(folder, "site")
            said = subprocess.run([sys.executable, "-c", "import gridsmith; print(gridsmith.Gpu('h200').sms, "
                                   "gridsmith._library._name)"], env=environment, cwd=folder, capture_output=True, text=True)
            package = os.path.join(folder, "site", "gridsmith")
            self.assertEqual(said.stdout.split(), ["132", os.path.join(package, "libgridsmith.so.0")], said.stderr)
            self.assertTrue(os.path.exists(os.path.join(package, "py.typed")))
            # pip keeps the permissions of files; zipfile does not.
            os.chmod(os.path.join(package, "gridsmith"), 0o755)
            environment.pop("GRIDSMITH_PROGRAM")
            environment["PATH"] = "/nowhere"
            trace = source("corpus/h200-program-eager.jsonl.gz")
            said = subprocess.run([sys.executable, "-c", f"import gridsmith; print(gridsmith.explain({trace!r}))"],
                                  env=environment, cwd=folder, capture_output=True, text=True)
            self.assertIn("busy 7.0%", said.stdout, said.stderr)
            self.assertTrue(os.path.exists(os.path.join(package, "libgridsmith-trace.so")))
            # The command, as pip makes it of the entry point; and the man pages, which pip puts beside the interpreter.
            said = subprocess.run([sys.executable, "-c", "import gridsmith; gridsmith.main()", "gpus", "h200"], env=environment,
                                  cwd=folder, capture_output=True, text=True)
            self.assertIn("NVIDIA H200", said.stdout, said.stderr)
            info = os.path.join(folder, "site", f"gridsmith-{backend.VERSION}")
            with open(f"{info}.dist-info/entry_points.txt") as file:
                self.assertIn("gridsmith = gridsmith:main", file.read())
            self.assertTrue(os.path.exists(f"{info}.data/data/share/man/man1/gridsmith.1"))
            # What pip asks for before it builds is what is built.
            os.mkdir(os.path.join(folder, "asked"))
            asked = os.path.join(folder, "asked", backend.prepare_metadata_for_build_wheel(os.path.join(folder, "asked")))
            for file in ("METADATA", "WHEEL", "entry_points.txt"):
                self.assertTrue(filecmp.cmp(os.path.join(asked, file), f"{info}.dist-info/{file}", shallow=False), file)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
