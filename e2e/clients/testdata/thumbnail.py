"""Makes the thumbnail of a file of a type and puts it where file managers look for it, as nautilus does. Prints where that is."""
import os
import sys

import gi

gi.require_version("GnomeDesktop", "3.0")
from gi.repository import Gio, GnomeDesktop  # noqa: E402

uri = Gio.File.new_for_path(sys.argv[1]).get_uri()
kind = sys.argv[2]
mtime = int(os.stat(sys.argv[1]).st_mtime)
factory = GnomeDesktop.DesktopThumbnailFactory.new(GnomeDesktop.DesktopThumbnailSize.NORMAL)
if not factory.can_thumbnail(uri, kind, mtime):
    sys.exit("no thumbnailer for " + kind)
picture = factory.generate_thumbnail(uri, kind, None)
if picture is None:
    sys.exit("the thumbnailer made no picture")
factory.save_thumbnail(picture, uri, mtime, None)
print(factory.lookup(uri, mtime))
