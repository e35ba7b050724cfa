# Runs the test suite of pyverbs that is beside this file, and prints a line for each test that begins, and each that ends.
import json
import os
import sys
import unittest

here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [here, os.path.join(here, "tests")]

after = ""
args = []
for a in sys.argv[1:]:
    if a.startswith("--after="):
        after = a[len("--after="):]
    else:
        args.append(a)
sys.argv[1:] = args

from args_parser import parser  # of the suite

parser.parse_args()
import tests

# Not sys.stdout, which tests may replace.
out = os.fdopen(os.dup(1), "w", buffering=1)


def say(**what):
    out.write("\n@goroce " + json.dumps(what) + "\n")
    out.flush()


def short(text):
    lines = [l for l in str(text).strip().splitlines() if l.strip()]
    return lines[-1][:300] if lines else ""


class Result(unittest.TestResult):
    def startTest(self, test):
        super().startTest(test)
        self.now, self.outcome, self.why = test.id(), "pass", ""
        say(begin=self.now)

    def stopTest(self, test):
        super().stopTest(test)
        say(end=self.now, result=self.outcome, detail=self.why)

    def failed(self, text):
        self.outcome, self.why = "fail", short(text)

    def addError(self, test, err):
        super().addError(test, err)
        if not isinstance(test, unittest.TestCase):  # of a class or a module
            say(begin=test.id())
            say(end=test.id(), result="fail", detail=short(self.errors[-1][1]))
        else:
            self.failed(self.errors[-1][1])

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.failed(self.failures[-1][1])

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.failed(err[1])

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        if self.outcome == "pass":
            self.outcome, self.why = "skip", short(reason)


def flat(suite):
    for t in suite:
        if isinstance(t, unittest.TestSuite):
            yield from flat(t)
        else:
            yield t


loader = unittest.TestLoader()
every = []
for m in tests.__test_modules__:
    every += flat(loader.loadTestsFromModule(m))
every.sort(key=lambda t: t.id())
if after:
    names = [t.id() for t in every]
    every = every[names.index(after) + 1:]
unittest.TestSuite(every).run(Result())
say(done=True)
