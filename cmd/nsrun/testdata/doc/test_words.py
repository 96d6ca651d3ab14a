import unittest


class Words(unittest.TestCase):
    def test_words(self):
        self.assertEqual(["one", "two"], "one two".split())
